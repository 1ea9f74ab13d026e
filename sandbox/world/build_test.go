package world

import (
	"os"
	"path/filepath"
	"testing"
)

func TestABuildOfTheSameBytesKeepsItsFile(t *testing.T) {
	dir := t.TempDir()
	out, temp := filepath.Join(dir, "macsim"), filepath.Join(dir, "macsim.1")
	put := func(path, text string) os.FileInfo {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	for _, c := range []struct {
		text string
		kept bool
	}{{"first", false}, {"first", true}, {"second", false}} {
		before, _ := os.Stat(out)
		built := put(temp, c.text)
		if err := finish(temp, out); err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(out)
		if err != nil {
			t.Fatal(err)
		}
		if kept := before != nil && os.SameFile(before, now); kept != c.kept || kept == os.SameFile(built, now) {
			t.Errorf("%s: the file before is kept: %v", c.text, kept)
		}
		if _, err := os.Stat(temp); err == nil {
			t.Errorf("%s: the build is left behind", c.text)
		}
	}
}
