package pod

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/atomicfile"
)

// unwritten is what a Pod shows whose next step cannot be written down.
func (w *world) unwritten(says string) {
	w.t.Helper()
	p := w.awaitWaiting(state.ReasonRunError)
	if m := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(m, says) {
		w.t.Errorf("message %q, want %q", m, says)
	}
	if w.events.count("a", "Failed") != 1 {
		w.t.Errorf("events %v, want one of what cannot be written", w.events.all())
	}
}

// A checkpoint that cannot be written, as the disk is full, holds the Pod up, and it says so.
func TestACheckpointThatCannotBeWrittenIsTold(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.host.pullGate = make(chan struct{})
	w.startAgent()
	w.await("the image is being pulled", func() bool {
		w.host.mu.Lock()
		defer w.host.mu.Unlock()
		return w.host.pulls > 0
	})
	// In the place of the file that is written before it gets its name.
	blocked := atomicfile.Temp(filepath.Join(checkpoint.Store(filepath.Join(w.dir, "pods")).Dir("uid-a"), "record.json"))
	if err := os.MkdirAll(filepath.Join(blocked, "in its place"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.frozen.Store(true) // no other try while it is removed
	close(w.host.pullGate)
	w.unwritten("writing the checkpoint of a Pod")
	if h := w.host.history(); len(h) != 0 {
		t.Errorf("it went on: %v", h)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	w.frozen.Store(false)
	w.awaitRunning("a")
}

// A command of which the shim cannot write that it begins is not run, and the Pod says so.
func TestACommandThatCannotBeRecordedIsTold(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	full := &shim.RefusedError{Code: shim.RefusedRecord, Message: "writing main.begun: no space left on device"}
	w.host.guests.refused = []error{full, full, full}
	w.frozen.Store(true)
	w.startAgent()
	w.unwritten("no space left on device")
	w.frozen.Store(false)
	w.awaitRunning("a")
	if n := w.events.count("a", "Failed"); n != 1 {
		t.Errorf("told %d times", n)
	}
}
