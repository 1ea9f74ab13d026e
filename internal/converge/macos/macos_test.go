package macos

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const printed = `system/dev.macfleet.tart-kubelet = {
	active count = 1
	path = /Library/LaunchDaemons/dev.macfleet.tart-kubelet.plist
	type = LaunchDaemon
	state = running

	program = /usr/local/libexec/macfleet/current/tart-kubelet
	arguments = {
		/usr/local/libexec/macfleet/current/tart-kubelet
		run
	}

	inherited environment = {
		state = not this one
		pid = 1
	}

	runs = 3
	pid = 4711
	immediate reason = speculative
	last exit code = 1

	endpoints = {
		"x" = {
			state = active
		}
	}
}
`

func TestParseJob(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Job
	}{
		"running":      {printed, Job{State: "running", PID: 4711, Runs: 3, LastExit: "1"}},
		"never exited": {"a = {\n\tstate = not running\n\tlast exit code = (never exited)\n}", Job{State: "not running"}},
		"killed":       {"a = {\n\tlast terminating signal = Killed: 9\n}", Job{LastExit: "Killed: 9"}},
		"code signing": {"a = {\n\tlast exit reason = OS_REASON_CODESIGNING\n\tlast terminating signal = Killed: 9\n}", Job{LastExit: "OS_REASON_CODESIGNING"}},
		"empty":        {"", Job{}},
		"unknown":      {"pid 4\n}\n}{\n= = =", Job{}},
	} {
		if diff := cmp.Diff(c.want, parseJob(c.text)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestParseDisabled(t *testing.T) {
	const text = "disabled services = {\n\t\"a.b\" => disabled\n\t\"c\" => true\n\t\"d\" => enabled\n\t\"e\" => false\n}\nlogin item associations = {\n}\n"
	for label, want := range map[string]bool{"a.b": true, "c": true, "d": false, "e": false, "b": false, "": false} {
		if got := parseDisabled(text, label); got != want {
			t.Errorf("%q is disabled: %t, want %t", label, got, want)
		}
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add(printed)
	f.Fuzz(func(t *testing.T, text string) {
		if j := parseJob(text); len(j.LastExit) > maxErrorText {
			t.Error("unbounded")
		}
	})
}

func TestRunReportsTheExit(t *testing.T) {
	_, err := run(context.Background(), "/bin/sh", "-c", "echo first >&2; echo second >&2; exit 113")
	var failed *commandError
	if !errors.As(err, &failed) || failed.Code != 113 || failed.Text != "first" {
		t.Errorf("got %v", err)
	}
	if _, err := run(context.Background(), "/nonexistent"); err == nil || errors.As(err, &failed) && failed.Code == 0 {
		t.Errorf("got %v", err)
	}
	out, err := run(context.Background(), "/bin/sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done")
	if err != nil || len(out) != maxOutput {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

func TestLinkReplacesInOneStep(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "current")
	for _, target := range []string{"one", "two"} {
		if err := (disk{}).Link(link, target); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(link); err != nil || got != target {
			t.Errorf("points to %q, want %q (%v)", got, target, err)
		}
	}
	if names, err := (disk{}).List(dir); err != nil || len(names) != 1 {
		t.Errorf("left %v (%v)", names, err)
	}
}

func TestLockIsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := disk{}.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (disk{}).Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := disk{}.Lock(path)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestAskIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(strings.Repeat("x", 2*maxAnswer)))
			_ = c.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	data, err := UnixSockets{}.Ask(ctx, path, nil)
	if err != nil || len(data) != maxAnswer {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// A link in the place of a folder would have its target given away.
func TestMakeDirFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(victim, 0o755), os.Symlink(victim, link)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{link, filepath.Join(dir, "file")} {
		if name != link {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := (disk{}).MakeDir(t.Context(), name, Attr{Mode: 0o700, Owner: "root", Group: "wheel"}); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
	}
	if info, err := os.Stat(victim); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the target is %v (%v)", info.Mode(), err)
	}
}
