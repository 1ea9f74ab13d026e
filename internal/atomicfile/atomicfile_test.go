package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestReplacingClearsWhatACutLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.json")
	for _, left := range []string{"half of it", ""} {
		if left != "" {
			if err := os.WriteFile(Temp(path), []byte(left), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := WriteJSON(path, map[string]int{"n": 1}); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != `{"n":1}` {
			t.Errorf("%q", got)
		}
		if _, err := os.Lstat(Temp(path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the new file is left: %v", err)
		}
	}
}

// What lies in the new file's place is not followed: it may lead elsewhere.
func TestALinkIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, Temp(path)); err != nil {
		t.Fatal(err)
	}
	if err := WriteJSON(path, 1); err != nil || read(t, other) != "mine" || read(t, path) != "1" {
		t.Errorf("%v, %s", err, read(t, other))
	}
}

// A null device takes every write, and has no disk to wait for: whoever does not wait
// for the disk is told that all went well.
func TestAFileThatIsOnNoDiskReplacesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := WriteJSON(path, "before"); err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	f := File{Path: path, Finish: func(f *os.File) error { return unix.Dup2(int(null.Fd()), int(f.Fd())) }}
	if err := f.Write(strings.NewReader("after")); !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTTY) {
		t.Errorf("%v", err)
	}
	if got := read(t, path); got != `"before"` {
		t.Errorf("%q", got)
	}
	if _, err := os.Lstat(Temp(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the new file is left: %v", err)
	}
}

func TestTempNames(t *testing.T) {
	for path, temp := range map[string]string{"/a/b.json": "/a/.b.json.new", "b": ".b.new"} {
		if got := Temp(path); got != temp || !IsTemp(got) || IsTemp(path) {
			t.Errorf("%s: %s", path, got)
		}
	}
}
