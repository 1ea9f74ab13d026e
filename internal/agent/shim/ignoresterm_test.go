package shim

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// ignoresTerm is a command that does not end on SIGTERM.
const ignoresTerm = "trap '' TERM; echo ready; while :; do sleep 0.1; done"

func TestAwaitKillsWhoDoesNotHeed(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", ignoresTerm)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("line %q: %v", line, err)
	}
	terminate := make(chan os.Signal, 1)
	terminate <- syscall.SIGTERM
	_ = await(cmd, terminate, 50*time.Millisecond)
	if e := (Exit{}).ended(cmd.ProcessState, time.Now(), nil, ""); e.Signal != int(syscall.SIGKILL) {
		t.Errorf("exit %+v", e)
	}
}

func TestKillEndsACommandThatIgnoresIt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a command may take to heed SIGTERM")
	}
	dir := filepath.Join(t.TempDir(), "attempt-0")
	script := "trap '' TERM; : >'" + dir + "/ready'; while :; do sleep 0.1; done"
	if err := starter(t).Start(dir, Spec{Run: Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}}); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, filepath.Join(dir, "ready"))
	for range 2 { // as often as the agent likes
		if err := Kill(dir); err != nil {
			t.Fatal(err)
		}
	}
	awaitGone(t, dir)
	if e, found, err := ReadExit(dir); err != nil || !found || e.Signal != int(syscall.SIGKILL) {
		t.Errorf("exit %+v, found %v, err %v", e, found, err)
	}
}
