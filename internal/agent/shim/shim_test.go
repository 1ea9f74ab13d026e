package shim

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// TestMain lets the test binary be the shim that the tests start.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "nc" {
		os.Exit(netcat(os.Args[1:]))
	}
	if len(os.Args) == 3 && os.Args[1] == "shim" {
		if err := runShim(os.Args[2], func(string) vm.Guest { return hostGuest{} }); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func starter(t *testing.T) Starter {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Starter{Argv: []string{self, "shim"}}
}

func start(t *testing.T, script string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "attempt-0")
	command := Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin", "SECRET=x"}}
	if err := starter(t).Start(dir, Spec{Run: command}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Kill(dir); err != nil {
			t.Error(err)
		}
		awaitGone(t, dir)
	})
	return dir
}

// untilTheTestEnds is a script that runs for as long as its test, also where no shim is left to
// end it: the file that it looks for goes with the test's directories.
func untilTheTestEnds(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return "while [ -e " + path + " ]; do sleep 0.05; done"
}

func awaitGone(t *testing.T, dir string) {
	t.Helper()
	select {
	case <-Gone(dir):
	case <-time.After(time.Minute):
		t.Fatal("the shim does not end")
	}
}

// Who takes a shim that runs for one that is gone starts another beside it.
func TestAShimThatCannotBeLookedForIsNotGone(t *testing.T) {
	dir := t.TempDir()
	loop := filepath.Join(dir, lockFile)
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		gone := Gone(dir)
		synctest.Wait()
		select {
		case <-gone:
			t.Error("it is gone, and nobody could look")
		default:
		}
		if err := os.Remove(loop); err != nil {
			t.Error(err)
		}
		<-gone // or nothing goes on any more, which fails the test
	})
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	deadline := time.After(time.Minute)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s never came", path)
		}
	}
}

func TestExitIsWrittenDown(t *testing.T) {
	for _, c := range []struct {
		script string
		code   int
		signal syscall.Signal
		tail   string
	}{
		{"echo out; echo err >&2; exit 0", 0, 0, "out\nerr\n"},
		{"exit 3", 3, 0, ""},
		{"kill -9 $$", -1, syscall.SIGKILL, ""},
		{"i=0; while [ $i -lt 1000 ]; do echo line-$i; i=$((i+1)); done", 0, 0, "line-999\n"},
	} {
		dir := start(t, c.script)
		awaitGone(t, dir)
		e, found, err := ReadExit(dir)
		if err != nil || !found {
			t.Fatalf("%s: no exit record: %v", c.script, err)
		}
		if e.Code != c.code || e.Signal != int(c.signal) || !strings.HasSuffix(e.Tail, c.tail) || len(e.Tail) > tailBytes {
			t.Errorf("%s: %+v", c.script, e)
		}
		if e.Ended.Before(e.Started) || e.Started.IsZero() {
			t.Errorf("%s: from %s to %s", c.script, e.Started, e.Ended)
		}
	}
}

func TestCommandThatCannotBeExecuted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "attempt-0")
	if err := starter(t).Start(dir, Spec{Run: Command{Path: filepath.Join(dir, "nothing")}}); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, dir)
	if e, found, err := ReadExit(dir); err != nil || !found || e.Code != codeNotExecuted || e.Tail == "" {
		t.Errorf("exit %+v, found %v, err %v", e, found, err)
	}
}

func TestAliveUntilTheEnd(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	dir := start(t, "while [ ! -e "+gate+" ]; do sleep 0.01; done")
	if alive, err := Alive(dir); err != nil || !alive {
		t.Fatalf("alive %v, err %v", alive, err)
	}
	awaitFile(t, filepath.Join(dir, startedFile))
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, dir)
	if alive, err := Alive(dir); err != nil || alive {
		t.Errorf("alive %v, err %v", alive, err)
	}
}

func TestSessionOfItsOwn(t *testing.T) {
	dir := start(t, "sleep 60")
	awaitFile(t, filepath.Join(dir, startedFile))
	s, found, err := ReadStarted(dir)
	if err != nil || !found {
		t.Fatal(err)
	}
	group, err := syscall.Getpgid(s.ShimPID)
	if err != nil {
		t.Fatal(err)
	}
	if group != s.ShimPID || group == syscall.Getpgrp() {
		t.Errorf("shim %d is in group %d", s.ShimPID, group)
	}
	// What ends the agent's group, or hangs up its terminal, must not end a VM.
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(s.ShimPID, sig); err != nil {
			t.Fatal(err)
		}
	}
	if alive, err := Alive(dir); err != nil || !alive {
		t.Errorf("alive %v, err %v", alive, err)
	}
}

func TestKillEndsTheCommand(t *testing.T) {
	dir := start(t, "echo begun; exec sleep 60")
	awaitFile(t, filepath.Join(dir, outputFile))
	awaitFile(t, filepath.Join(dir, startedFile))
	if err := Kill(dir); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, dir)
	if e, found, err := ReadExit(dir); err != nil || !found || e.Signal != int(syscall.SIGTERM) {
		t.Errorf("exit %+v, found %v, err %v", e, found, err)
	}
	if err := Kill(dir); err != nil {
		t.Errorf("killing what is gone: %v", err)
	}
}

func TestKilledShimLeavesNoRecord(t *testing.T) {
	dir := start(t, untilTheTestEnds(t)) // it cannot end, and be written down, before its shim is killed
	awaitFile(t, filepath.Join(dir, startedFile))
	s, _, err := ReadStarted(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.ShimPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, dir)
	if _, found, err := ReadExit(dir); err != nil || found {
		t.Errorf("found %v, err %v", found, err)
	}
}

func TestADirectoryIsUsedOnce(t *testing.T) {
	dir := start(t, "exit 0")
	awaitGone(t, dir)
	if err := starter(t).Start(dir, Spec{Run: Command{Path: "/bin/true"}}); err == nil {
		t.Error("an attempt was started twice")
	}
}

func TestFilesAreTheOwnersOnly(t *testing.T) {
	dir := start(t, "exit 0")
	awaitGone(t, dir)
	for _, name := range []string{specFile, exitFile, outputFile} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", name, st.Mode())
		}
	}
}
