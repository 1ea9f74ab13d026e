package macos

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Root reads a staged build where its user can put anything.
func TestDiskOpensRegularFilesOnly(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", t.TempDir()} {
		opened := make(chan error, 1)
		go func() {
			f, err := disk{}.Open(path)
			if err == nil {
				_ = f.Close()
			}
			opened <- err
		}()
		select {
		case err := <-opened:
			if err == nil {
				t.Errorf("%s was opened", path)
			}
		case <-time.After(time.Minute):
			t.Errorf("opening %s does not end", path)
		}
	}
}
