package macos

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRenamedLogIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "err.log")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	say := func(f *os.File, text string) {
		t.Helper()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(name, want string) {
		t.Helper()
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s holds %q, want %q (%v)", filepath.Base(name), got, want, err)
		}
	}
	f := open()
	say(f, "one ")
	reopen(f, path)
	say(f, "two ")
	if err := os.Rename(path, path+".0"); err != nil {
		t.Fatal(err)
	}
	reopen(f, path) // nobody has made the new file yet
	say(f, "three")
	holds(path+".0", "one two three")
	say(open(), "turned over\n")
	reopen(f, path)
	say(f, "four")
	holds(path, "turned over\nfour")
	holds(path+".0", "one two three")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".0", path); err != nil {
		t.Fatal(err)
	}
	reopen(f, path)
	say(f, "five")
	holds(path+".0", "one two three")
}
