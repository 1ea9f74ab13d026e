package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Whoever reads the output may have had enough, as head has. A shell says 141 of that.
func TestAClosedPipeEndsItInSilence(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), programs.macfleet, "completion", "bash")
	cmd.Stdout, cmd.Stderr = write, &said
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) {
		t.Fatalf("%v, want it to end by the pipe", err)
	}
	if status, is := exit.Sys().(syscall.WaitStatus); !is || !status.Signaled() || status.Signal() != syscall.SIGPIPE || said.Len() > 0 {
		t.Errorf("%v, says %q; want SIGPIPE and nothing", exit, said.String())
	}
}
