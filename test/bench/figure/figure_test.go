package figure

import (
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSample(t *testing.T) {
	var values []int
	for i := range 100 {
		values = append(values, 100-i)
	}
	want := Sample{Count: 100, Median: 51, P25: 26, P75: 76, P99: 100, Min: 1, Max: 100}
	if got := Of(values...); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if values[0] != 100 {
		t.Error("the values were sorted in their place")
	}
	if got := Of[float64](); got != (Sample{}) {
		t.Errorf("of nothing: %+v", got)
	}
	if got := Milliseconds([]time.Duration{1234567 * time.Nanosecond}).Median; got != 1.23457 {
		t.Errorf("a time of 1.234567 ms is %g ms", got)
	}
}

// Pairs are compared before a median is taken: a minute in which both are slow spoils no ratio.
func TestRatiosAreOfPairs(t *testing.T) {
	ours, peers := []float64{1, 100, 3}, []float64{2, 200, 6}
	if got := Ratios(ours, peers); got.Median != 0.5 || got.Min != 0.5 || got.Max != 0.5 || got.Count != 3 {
		t.Errorf("%+v, want 0.5 of 3 pairs", got)
	}
	if got := Ratios(ours, []float64{0, 200, 6}); got.Count != 2 {
		t.Errorf("%d pairs, want the two that have a ratio", got.Count)
	}
}

func TestGoals(t *testing.T) {
	s := Sample{Count: 3, Median: 10, P99: 20, Max: 30}
	peer := Of(5.0)
	for _, c := range []struct {
		goal Goal
		met  bool
		says string
	}{
		{AtMost(10), true, "at most 10: met"},
		{AtMost(9), false, "at most 9: missed"},
		{AtLeast(10), true, "at least 10: met"},
		{AtLeast(11), false, "at least 11: missed"},
		{AtMost(19).On(P99), false, "p99 at most 19: missed"},
		{AtMost(30).On(Longest), true, "longest at most 30: met"},
		{AtMostTimes(2), true, "at most 2 ×: met"},
		{AtMostTimes(1.9), false, "at most 1.9 ×: missed"},
		{AtLeastTimes(2.1), false, "at least 2.1 ×: missed"},
		{AtMost(9).AsBar(), false, "at most 9: broken"},
		{AtMost(11).AsBar(), true, "at most 11: kept"},
	} {
		f := Beside("a thing", "ms", s, peer, Sample{}, c.goal)
		if f.Missed() == c.met || f.asked() != c.says {
			t.Errorf("%s (missed: %t), want %s", f.asked(), f.Missed(), c.says)
		}
	}
	if f := New("alone", "ms", s, AtMostTimes(2)); !f.Missed() {
		t.Error("a figure without a peer meets a goal that is a ratio")
	}
}

func report() *Report {
	return &Report{
		Part: "agent", At: time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC), Commit: "abc", Settings: "20 Pods", Ours: "Mac", Peer: "kubelet",
		Machine: Machine{Processor: "Some CPU", Cores: 2, MemoryMB: 8000, Kernel: "linux 6", Go: "1.26", BusyAtStart: 0.1, LoadAtStart: "0.10 0.2 0.3", LoadAtEnd: "2.60 1 1"},
		Figures: []Figure{
			Beside("a | b", "ms", Of(2.0, 3, 4), Of(1.0, 1, 1), Ratios([]float64{2, 3, 4}, []float64{1, 1, 1}), AtMostTimes(1)),
			New("alone", "MB", Of(7.0), AtMost(8)),
		},
	}
}

const handwritten = "# Figures\n\n<!-- figures: agent -->\nold\n<!-- end of figures -->\n\nbetween\n\n<!-- figures: claims -->\nby hand\n<!-- end of figures -->\nend\n"

func TestFill(t *testing.T) {
	page, err := Fill(handwritten, map[string]*Report{"agent": report()})
	if err != nil {
		t.Fatal(err)
	}
	want := `# Figures

<!-- figures: agent -->

On 2 cores of Some CPU, 8.0 GB, linux 6, Go 1.26, with nothing else at work (10 % in use before the start; load 0.10 at the start, 2.60 at the end), on 22 November 2026, of commit abc: 20 Pods.

| figure | Mac | kubelet | ratio | goal |
|---|---|---|---|---|
| a \| b | 3 (2 to 4) ms | 1 (1 to 1) ms | 3 (2 to 4) | at most 1 ×: missed |
| alone | 7 MB |  |  | at most 8: met |

<!-- end of figures -->

between

<!-- figures: claims -->
by hand
<!-- end of figures -->
end
`
	if page != want {
		t.Errorf("got\n%s\nwant\n%s", page, want)
	}
	again, err := Fill(page, map[string]*Report{"agent": report()})
	if err != nil || again != page {
		t.Errorf("filled twice: %v\n%s", err, again)
	}
	if _, err := Fill(handwritten, map[string]*Report{"kubelet": report()}); err == nil {
		t.Error("figures without a place on the page are lost without a word")
	}
}

func TestUnexplained(t *testing.T) {
	reports := map[string]*Report{"agent": report()}
	reports["agent"].Figures[0].Name = "a thing"
	if got := Unexplained("| a thing | because |\n\n## Why a goal is missed\n\n| figure | why |\n", reports); len(got) != 1 || got[0] != "agent: a thing" {
		t.Errorf("%q, want the figure that misses its goal", got)
	}
	if got := Unexplained("\n## Why a goal is missed\n\n| figure | why |\n|---|---|\n| a thing | because |\n\n## More\n", reports); got != nil {
		t.Errorf("%q is explained", got)
	}
}

// What is written is what was measured, and the terminal shows the same.
func TestWrittenAndRead(t *testing.T) {
	r := report()
	var table bytes.Buffer
	folder := filepath.Join(t.TempDir(), "new")
	if err := r.End(&table, folder); err != nil {
		t.Fatal(err)
	}
	read, err := Read(filepath.Join(folder, "agent.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read, r) {
		t.Errorf("read %+v, want %+v", read, r)
	}
	for _, want := range []string{"a | b", "alone", "missed", "20 Pods", "Some CPU"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}
}

func TestMachine(t *testing.T) {
	const before = "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 50 0 50 400 0 0 0 0 0 0\n"
	for _, c := range []struct {
		after string
		busy  float64
		quiet bool
	}{
		{"cpu  105 0 105 980 10 0 0 0 0 0\n", 0.05, true},
		{"cpu  115 0 115 970 0 0 0 0 0 0\n", 0.15, false},
		{"", 1, false},
		{before, 1, false},
	} {
		if busy := busyBetween(before, c.after); busy != c.busy || (Machine{BusyAtStart: busy}).Quiet() != c.quiet {
			t.Errorf("%q: %g in use, want %g", c.after, busy, c.busy)
		}
	}
	if m := thisMachine(); m.Cores == 0 || m.Go == "" || m.Kernel == "" {
		t.Errorf("this machine says nothing of itself: %+v", m)
	}
}
