package filetree

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Between our look at a directory and a change of its mode, whoever owns the tree can
// put a hard link to any file of the disk in its place. Root needs no mode to remove a
// tree, and changes none.
func TestRootChangesNoModes(t *testing.T) {
	if !asRoot() {
		t.Skip("not root")
	}
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o077); err != nil {
		t.Fatal(err)
	}
	if err := Walk(dir, Limits{}, func(string, fs.FileInfo) {}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(closed)
	if err != nil || info.Mode().Perm() != 0o077 {
		t.Errorf("root has made it %v, %v", info.Mode().Perm(), err)
	}
}
