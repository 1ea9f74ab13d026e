package filetree

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
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

// Root passes where modes are in the way, so that the trees that forbid themselves to
// their owner are removed as somebody else, too.
func TestRemoveAsTheOwner(t *testing.T) {
	if !asRoot() {
		t.Skip("TestRemove is run as the owner already")
	}
	const nobody = 65534
	dir := t.TempDir()
	program := filepath.Join(dir, "test")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	// The directory that go test makes for us is root's alone.
	err = errors.Join(os.WriteFile(program, data, 0o700), os.Chown(program, nobody, nobody), os.Chown(dir, nobody, nobody), os.Chmod(filepath.Dir(dir), 0o711))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestRemove$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("this root may not become another user:", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
