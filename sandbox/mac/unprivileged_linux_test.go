package mac

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestUnprivileged runs the tests of this package again as nobody.
func TestUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("already unprivileged")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "macsim-nobody")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeAll(dir); err != nil {
			t.Error(err)
		}
	})
	self := filepath.Join(dir, "self.test")
	if err := copyFile(os.Args[0], self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^Test(FirstContact|Sudo|NothingOutside|Launchd|ACommandInAGuest|ReinstallLeaves)", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), programsEnv+"="+programs, "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as nobody: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("as nobody: namespaces are refused\n%s", out)
	}
	if !strings.Contains(string(out), "--- PASS: TestFirstContact") {
		t.Fatalf("nothing ran as nobody:\n%s", out)
	}
}

func TestRefusedErrorIsOneLine(t *testing.T) {
	err := refused(fmt.Errorf("fork/exec: %w", syscall.EPERM))
	var r *RefusedError
	if !errors.As(err, &r) || !errors.Is(err, fs.ErrPermission) || r.Remedy == "" || strings.Contains(err.Error(), "\n") {
		t.Errorf("error = %v", err)
	}
}

func TestSupportedAgreesWithStart(t *testing.T) {
	supported := Supported()
	started := newBench(t, nil).Start(t.Context())
	if (supported == nil) != (started == nil) {
		t.Errorf("Supported = %v, Start = %v", supported, started)
	}
}
