package hostos

import (
	"os/exec"
	"testing"
	"time"
)

func TestProcessGone(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	ended, err := ProcessGone(pid)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Error("gone while it runs")
	case <-time.After(20 * time.Millisecond):
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	expectGone(t, ended, "a process that was killed and not reaped")
	again, err := ProcessGone(pid)
	if err != nil {
		t.Fatal(err)
	}
	expectGone(t, again, "a zombie")
	_ = cmd.Wait()
	if again, err = ProcessGone(pid); err != nil {
		t.Fatal(err)
	}
	expectGone(t, again, "a process that was never there")
}

func expectGone(t *testing.T, ended <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Errorf("not told: %s", what)
	}
}
