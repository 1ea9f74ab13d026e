package shim

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTailLog(t *testing.T) {
	l := testLog(t, Logs{})
	dir, name := filepath.Split(l.path)
	if got, err := TailLog(dir, name, 10, 100); got != "" || err != nil {
		t.Errorf("no log: %q, err %v", got, err)
	}
	out, bad := l.stream("stdout"), l.stream("stderr")
	_, _ = out.Write([]byte(strings.Repeat("x", 2*maxLine) + "\n"))
	_, _ = out.Write([]byte("one two three\n\n"))
	_, _ = bad.Write([]byte("oh\n"))
	_, _ = out.Write([]byte("half"))
	out.end()
	for _, c := range []struct {
		lines, size int
		want        string
	}{
		{1, 100, "half"},
		{2, 100, "oh\nhalf"},
		{4, 100, "one two three\n\noh\nhalf"},
		{4, 9, "\n\noh\nhalf"},
		{6, 26, "xxx\none two three\n\noh\nhalf"},
		{1000, 3 * maxLine, strings.Repeat("x", 2*maxLine) + "\none two three\n\noh\nhalf"},
	} {
		got, err := TailLog(dir, name, c.lines, c.size)
		if err != nil || got != c.want {
			t.Errorf("%d lines, %d bytes: %.100q, err %v, want %.100q", c.lines, c.size, got, err, c.want)
		}
	}
}
