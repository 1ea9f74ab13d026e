package shim

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testLog has one time for all entries.
func testLog(t *testing.T, limits Logs) *logFile {
	t.Helper()
	l := newLog(filepath.Join(t.TempDir(), "main.log"), limits)
	l.now = func() time.Time { return time.Date(2026, 5, 4, 3, 2, 1, 120, time.FixedZone("CEST", 7200)) }
	t.Cleanup(func() { _ = l.Close() })
	return l
}

const stamp = "2026-05-04T01:02:01.00000012Z "

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEntriesOfTheCRI(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		writes []string
		want   []string
	}{
		"lines":                  {[]string{"a\nb\n"}, []string{"F a", "F b"}},
		"an empty line":          {[]string{"\n"}, []string{"F "}},
		"a line in pieces":       {[]string{"a", "b", "c\n"}, []string{"F abc"}},
		"a line that never ends": {[]string{"a\nbc"}, []string{"F a", "P bc"}},
		"nothing":                {[]string{"", ""}, nil},
		"the longest line":       {[]string{x(maxLine) + "\n"}, []string{"F " + x(maxLine)}},
		"the longest in pieces":  {[]string{x(maxLine), "\n"}, []string{"F " + x(maxLine)}},
		"one byte more":          {[]string{x(maxLine) + "y\n"}, []string{"P " + x(maxLine), "F y"}},
		"more in pieces":         {[]string{x(maxLine - 1), "xy", "\n"}, []string{"P " + x(maxLine), "F y"}},
		"long, and never ends":   {[]string{x(2*maxLine + 1)}, []string{"P " + x(maxLine), "P " + x(maxLine), "P x"}},
		"more than a batch":      {[]string{strings.Repeat(x(maxLine-1)+"\n", 4)}, []string{"F " + x(maxLine-1), "F " + x(maxLine-1), "F " + x(maxLine-1), "F " + x(maxLine-1)}},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLog(t, Logs{})
			w := l.stream("stdout")
			for _, s := range c.writes {
				if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
					t.Errorf("wrote %d of %d, err %v", n, len(s), err)
				}
			}
			w.end()
			var want strings.Builder
			for _, entry := range c.want {
				want.WriteString(stamp + "stdout " + entry + "\n")
			}
			got := ""
			if c.want != nil {
				got = read(t, l.path)
			}
			if diff := cmp.Diff(want.String(), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStreamsShareALog(t *testing.T) {
	l := testLog(t, Logs{})
	out, bad := l.stream("stdout"), l.stream("stderr")
	for _, w := range []struct {
		to   *lineWriter
		what string
	}{{out, "half "}, {bad, "oh\n"}, {out, "and half\n"}} {
		_, _ = w.to.Write([]byte(w.what))
	}
	want := stamp + "stderr F oh\n" + stamp + "stdout F half and half\n"
	if diff := cmp.Diff(want, read(t, l.path)); diff != "" {
		t.Error(diff)
	}
}

func TestLogGoesOnAfterAnEarlierOne(t *testing.T) {
	l := testLog(t, Logs{})
	if err := os.WriteFile(l.path, []byte(stamp+"stdout F before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _ = l.stream("stdout").Write([]byte("after\n"))
	if got := read(t, l.path); !strings.HasPrefix(got, stamp+"stdout F before\n") || !strings.HasSuffix(got, "F after\n") {
		t.Errorf("log %q", got)
	}
}

func TestRotation(t *testing.T) {
	const line = "stdout F line-00\n"
	each := int64(len(stamp) + len(line))
	for _, c := range []struct {
		files int
		want  []string // newest first
	}{
		{3, []string{"line-08 line-09", "line-06 line-07", "line-04 line-05"}},
		{2, []string{"line-08 line-09", "line-06 line-07"}},
		{1, []string{"line-08 line-09"}},
	} {
		l := testLog(t, Logs{MaxBytes: 2 * each, MaxFiles: c.files})
		w := l.stream("stdout")
		for i := range 10 {
			_, _ = fmt.Fprintf(w, "line-%02d\n", i)
		}
		files, err := filepath.Glob(l.path + "*")
		if err != nil || len(files) != c.files {
			t.Errorf("%d files: %q, err %v", c.files, files, err)
		}
		var got []string
		for i, file := range files {
			text := read(t, file)
			if int64(len(text)) > 2*each {
				t.Errorf("%s has %d bytes", file, len(text))
			}
			got = append(got, strings.Join(regexp.MustCompile(`line-\d\d`).FindAllString(text, -1), " "))
			if want := l.path; i > 0 && file != fmt.Sprintf("%s.%d", want, i) {
				t.Errorf("file %d is %s", i, file)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%d files: %s", c.files, diff)
		}
	}
}

func TestLinesThatCannotBeWrittenAreCounted(t *testing.T) {
	l := testLog(t, Logs{})
	home := filepath.Dir(l.path)
	l.path = filepath.Join(home, "later", "main.log")
	w := l.stream("stdout")
	for range 3 {
		if n, err := w.Write([]byte("one\ntwo\n")); n != 8 || err != nil {
			t.Fatalf("a log that cannot be written: %d, %v", n, err)
		}
	}
	if err := os.Mkdir(filepath.Dir(l.path), 0o700); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("three\nfour\n"))
	_, _ = w.Write([]byte("five\n"))
	notice := regexp.MustCompile(`^\S+ stderr F macfleet: 6 lines of output are missing here, they could not be written: no such file or directory$`)
	lines := strings.Split(strings.TrimSpace(read(t, l.path)), "\n")
	if len(lines) != 4 || !notice.MatchString(lines[0]) || lines[3] != stamp+"stdout F five" {
		t.Errorf("log %q", lines)
	}
}

func TestLinesMissingAtTheEndAreCounted(t *testing.T) {
	l := testLog(t, Logs{})
	l.path = filepath.Join(filepath.Dir(l.path), "later", "main.log")
	_, _ = l.stream("stdout").Write([]byte("one\ntwo\n"))
	if err := os.Mkdir(filepath.Dir(l.path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want := stamp + "stderr F macfleet: 2 lines of output are missing here, they could not be written: no such file or directory\n"
	if diff := cmp.Diff(want, read(t, l.path)); diff != "" {
		t.Error(diff)
	}
}

// A full disk takes the first part of a write. The limit of a file's size does the
// same to a process.
func TestFullDiskLeavesWholeLines(t *testing.T) {
	if !alone(t) {
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	l := testLog(t, Logs{})
	w := l.stream("stdout")
	_, _ = w.Write([]byte("fits\n"))
	unlimited := limitFiles(t, int64(len(read(t, l.path)))+10)
	_, err := w.Write([]byte("does not\nfit\n"))
	unlimited()
	if err != nil {
		t.Errorf("the writer was told: %v", err)
	}
	if diff := cmp.Diff(stamp+"stdout F fits\n", read(t, l.path)); diff != "" {
		t.Errorf("while the disk is full: %s", diff)
	}
	_, _ = w.Write([]byte("again\n"))
	lines := strings.Split(strings.TrimSpace(read(t, l.path)), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "stderr F macfleet: 2 lines of output are missing") || lines[2] != stamp+"stdout F again" {
		t.Errorf("log %q", lines)
	}
}

// alone reports whether the test has a process of its own; where it has not, it is run in one.
// A process whose files are limited cannot write down what its tests open, as go test asks for.
func alone(t *testing.T) bool {
	t.Helper()
	const is = "MACFLEET_TEST_ALONE"
	if os.Getenv(is) != "" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), is+"=yes")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

func limitFiles(t *testing.T, size int64) (unlimited func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	low := before
	low.Cur = uint64(size)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &low); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}
}
