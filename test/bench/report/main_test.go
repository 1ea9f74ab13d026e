package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/test/bench/figure"
)

var root = filepath.Join("..", "..", "..")

// The book's page says what the committed figures do, and of each goal that they miss why.
func TestPageIsOfTheCommittedFigures(t *testing.T) {
	want, err := pageOf(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(pagePath(root))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/figures.md has other figures than docs/figures: go run ./test/bench/report")
	}
	all, err := reports(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, missed := range figure.Unexplained(want, all) {
		t.Errorf("%s misses its goal, and docs/figures.md has no row for it below \"Why a goal is missed\"", missed)
	}
	for _, part := range []string{"agent", "board", "claims", "converge", "decisions", "kubelet", "leader", "manager", "scale", "schedules", "soak", "verbs"} {
		if !strings.Contains(want, "<!-- figures: "+part+" -->") {
			t.Errorf("docs/figures.md has no place for the figures of %s", part)
		}
	}
	for part, r := range all {
		if !r.Machine.Quiet() {
			t.Errorf("docs/figures/%s.json was measured on a machine of which %.0f %% were in use", part, 100*r.Machine.BusyAtStart)
		}
	}
}

// book is a root with a page that has a place for one part.
func book(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	page := "# Figures\n\n<!-- figures: agent -->\nby hand\n<!-- end of figures -->\n\nprose\n"
	if err := os.WriteFile(pagePath(dir), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// written are figures as a bench leaves them.
func written(t *testing.T, dir string, r *figure.Report) string {
	t.Helper()
	if err := r.End(t.Output(), filepath.Join(dir, "bench")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "bench", "agent.json")
}

func TestTakesFiguresIntoTheBook(t *testing.T) {
	dir := book(t)
	r := figure.Report{Part: "agent", Commit: "abc", Figures: []figure.Figure{figure.New("a thing", "ms", figure.Of(7.0), figure.AtMost(8))}}
	if err := run(dir, []string{written(t, dir, &r)}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(pagePath(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| a thing | 7 ms | at most 8: met |", "of commit abc", "\nprose\n"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(string(page), "by hand") {
		t.Error("what was written by hand stands beside the figures")
	}
}

func TestWritesTablesAlone(t *testing.T) {
	dir := book(t)
	before, err := os.ReadFile(pagePath(dir))
	if err != nil {
		t.Fatal(err)
	}
	r := figure.Report{Part: "agent", Commit: "abc" + figure.Changed, Figures: []figure.Figure{figure.New("a thing", "ms", figure.Of(7.0))}}
	to := filepath.Join(dir, "figures.md")
	if err := run(dir, []string{"-to", to, written(t, dir, &r)}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(to)
	if err != nil || !strings.Contains(string(text), "## agent\n") || !strings.Contains(string(text), "| a thing | 7 ms |") {
		t.Errorf("%v\n%s", err, text)
	}
	if after, err := os.ReadFile(pagePath(dir)); err != nil || string(after) != string(before) {
		t.Errorf("the book has changed, %v", err)
	}
}

// make scale writes its record there, too, of which its own tables are made.
func TestLeavesWhatIsNoReport(t *testing.T) {
	dir := book(t)
	for _, folder := range []string{filepath.Join(dir, "docs", "figures"), filepath.Join(dir, "bench")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "scale-run.json"), []byte(`{"phases": []}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(dir, []string{filepath.Join(dir, "bench", "scale-run.json")}); err != nil {
		t.Error(err)
	}
}

func TestTakesNoFiguresOfChangesThatAreNotCommitted(t *testing.T) {
	dir := book(t)
	r := figure.Report{Part: "agent", Commit: "abc" + figure.Changed, Figures: []figure.Figure{figure.New("a thing", "ms", figure.Of(7.0))}}
	if err := run(dir, []string{written(t, dir, &r)}); err == nil {
		t.Error("taken")
	}
}
