package stage

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Hollow is a hollow kubelet, the peer of a Mac's agent: see test/oracle/hollowkubelet.
type Hollow struct{ cmd *exec.Cmd }

// StartHollow starts a built hollow kubelet with more arguments, which says what it does to log.
func (p *Plane) StartHollow(binary, name string, log io.Writer, args ...string) (*Hollow, error) {
	kubeconfig := filepath.Join(p.started.Dir, "admin.kubeconfig")
	cmd := exec.Command(binary, append([]string{"-kubeconfig=" + kubeconfig, "-name=" + name}, args...)...) // it outlives who starts it, and is signalled
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the hollow kubelet: %w", err)
	}
	return &Hollow{cmd}, nil
}

// hollowAgent is what it calls itself.
const hollowAgent = "hollowkubelet"

// PID is its process.
func (h *Hollow) PID() int { return h.cmd.Process.Pid }

// Stop ends it.
func (h *Hollow) Stop() {
	_ = h.cmd.Process.Signal(syscall.SIGTERM)
	_ = h.cmd.Wait() // by a signal
}
