package mac

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestRebootChangesTheSessionAndKillsProcesses(t *testing.T) {
	b := startBench(t, nil)
	_, before, err := b.dial(ssh.KeyAlgoED25519)
	if err != nil {
		t.Fatal(err)
	}
	session := b.ok("sysctl -n kern.bootsessionuuid")
	got := b.root("echo x >/var/run/gone; echo x >/var/db/stays; chown m1:staff /var/db/stays; scutil --set LocalHostName mac-1; sleep 1000 >/dev/null 2>&1 & echo said; shutdown -r now")
	// The connection ends while shutdown still runs, and what was said before has arrived.
	if got.rc != -1 || got.out != "said\n" {
		t.Fatalf("shutdown: %+v", got)
	}
	await(t, "the boot session to change", func() bool {
		o, err := b.try("sysctl -n kern.bootsessionuuid", "")
		return err == nil && o.rc == 0 && strings.TrimSpace(o.out) != session
	})
	got = b.root("ls /var/run; stat -f %Su /var/db/stays; scutil --get LocalHostName; uname -n")
	if want := "m1\nmac-1\nmac-1\n"; got.out != want {
		t.Errorf("after the reboot: %+v, want %q", got, want)
	}
	_, after, err := b.dial(ssh.KeyAlgoED25519)
	if err != nil {
		t.Fatal(err)
	}
	if ssh.FingerprintSHA256(before) != ssh.FingerprintSHA256(after) {
		t.Error("a reboot changed the host key")
	}
}

func TestReinstallLeavesNothing(t *testing.T) {
	b := startBench(t, nil)
	_, oldKey, err := b.dial(ssh.KeyAlgoED25519)
	if err != nil {
		t.Fatal(err)
	}
	b.grant()
	b.root("echo x >/Library/trace; mkdir -m 0 /Library/closed; scutil --set HostName old; launchctl disable system/x")
	if err := b.Erase(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.Root()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the disk is still there: %v", err)
	}
	if c, err := net.Dial("tcp", b.Address().String()); err == nil {
		_ = c.Close()
		t.Error("an erased Mac answers")
	}
	install := Install{OSVersion: "26.1", Build: "25B78", Password: "other", AuthorizedKeys: []string{b.authorizedKey()}}
	if err := b.Install(t.Context(), install); err != nil {
		t.Fatal(err)
	}
	_, newKey, err := b.dial(ssh.KeyAlgoED25519)
	if err != nil {
		t.Fatal(err)
	}
	if ssh.FingerprintSHA256(oldKey) == ssh.FingerprintSHA256(newKey) {
		t.Error("the host key survived")
	}
	if got := b.ok("sw_vers -productVersion; ls /Library/trace /etc/sudoers.d/* 2>/dev/null; scutil --get HostName 2>&1; launchctl print-disabled system; true"); got !=
		"26.1\nHostName: not set\ndisabled services = {\n\t\"com.apple.screensharing\" => enabled\n}" {
		t.Errorf("after the reinstall:\n%s", got)
	}
	if b.sh("sudo -n true", "").rc == 0 {
		t.Error("root without a password survived")
	}
	if b.sh(`printf 'other\n' | sudo -S -k -p '' true`, "").rc != 0 {
		t.Error("the new password does not work")
	}
}

func TestStopLeavesNoProcess(t *testing.T) {
	b := startBench(t, nil)
	b.grant()
	b.root("sleep 1000 >/dev/null 2>&1 & echo $!")
	root := b.Root()
	if len(processesIn(t, root)) == 0 {
		t.Fatal("the check sees no process while there are some")
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := processesIn(t, root); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.ok("sudo -n true") // the disk is the same
}

// processesIn finds processes by their root folder. The kernel shows it as a
// path of their own mount namespace, so what counts is which file it is.
func processesIn(t *testing.T, root string) []string {
	t.Helper()
	want, err := os.Stat(root)
	if err != nil {
		t.Fatal(err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/root")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, l := range links {
		if info, err := os.Stat(l + "/"); err == nil && os.SameFile(info, want) {
			found = append(found, l)
		}
	}
	return found
}

func TestPortTaken(t *testing.T) {
	b := newBench(t, nil)
	l, err := net.Listen("tcp", b.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = b.Start(t.Context())
	var refused *RefusedError
	if errors.As(err, &refused) {
		t.Skipf("namespaces: %v", err)
	}
	if !errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Start = %v, want address in use in one line", err)
	}
	if left := processesIn(t, b.Root()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	b := newBench(t, func(o *Options) { o.BootDelay = patience })
	ctx, cancel := contextCancelled(t)
	defer cancel()
	if err := b.Start(ctx); err == nil {
		t.Error("Start succeeded with a cancelled context")
	}
}

func contextCancelled(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}
