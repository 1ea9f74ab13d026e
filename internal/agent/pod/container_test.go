package pod

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

func (w *world) container(s *Supervisor, name string) Container {
	w.t.Helper()
	c, err := s.Container(context.Background(), "ns", "a", "", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestAContainerIsFoundWhereItRuns(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever, "one"))
	s := w.startAgent()
	main := w.awaitRunning("a").Spec.Containers[0].Name
	dir := filepath.Join(w.dir, "pods", "uid-a", "attempt-0")
	c := w.container(s, main)
	if c.ID != "main" || !c.Running || c.WholeVM || c.Dir != dir || c.Log != filepath.Join(dir, "main.log") || c.PreviousLog != "" {
		t.Errorf("main: %+v", c)
	}
	if !slices.Equal(c.Command.Env, []string{"NAME=" + main}) || c.Command.Argv != nil {
		t.Errorf("command %+v", c.Command)
	}
	if c := w.container(s, "one"); c.ID != "init-0" || c.Running || c.Log != filepath.Join(dir, "init-0.log") {
		t.Errorf("init: %+v", c)
	}
	if pods := s.Pods(); len(pods) != 1 || !pods[0].Status.ContainerStatuses[0].Ready {
		t.Errorf("Pods %+v", pods)
	}
}

// A container has ended when its command has, though the status of a Pod that ends shows that
// only with the end of the last one: who follows its log waits no longer.
func TestAContainerWhoseCommandHasEndedDoesNotRun(t *testing.T) {
	w := newWorld(t, two(corev1.RestartPolicyNever))
	w.host.guests.stubborn = true
	s := w.startAgent()
	w.awaitAllRunning()
	w.frozen.Store(true)
	w.deleteWithin(3600)
	w.await("both are told to end", func() bool { return w.host.count("signal") == 2 })
	if !w.container(s, "web").Running {
		t.Error("it does not run")
	}
	w.host.exit("c-1", exited(0))
	if c := w.container(s, "web"); c.Running || filepath.Base(c.Log) != "c-1.log" || of(c.Pod, "web").State.Running == nil {
		t.Errorf("web: %+v", c)
	}
	if !w.container(s, "vm").Running {
		t.Error("the other one does not run")
	}
	w.frozen.Store(false)
	w.awaitGone("a")
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	s := w.startAgent()
	w.awaitRunning("a")
	for _, c := range []struct {
		pod       string
		uid       types.UID
		container string
		want      error
	}{
		{"b", "", "main", ErrPodNotFound},
		{"a", "uid-of-another", "main", ErrPodNotFound},
		{"a", "uid-a", "none", ErrContainerNotFound},
	} {
		if _, err := s.Container(t.Context(), "ns", c.pod, c.uid, c.container); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The agent after a restart has prepared nothing, and still knows where to look.
func TestAContainerIsFoundAfterARestartOfTheAgent(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.startAgent()
	name := w.awaitRunning("a").Spec.Containers[0].Name
	w.stopAgent()
	s := w.startAgent()
	w.await("the Pod is known", s.Known)
	c := w.container(s, name)
	if !c.Running || c.Dir != filepath.Join(w.dir, "pods", "uid-a", "attempt-0") || !slices.Equal(c.Command.Env, []string{"NAME=" + name}) {
		t.Errorf("container %+v", c)
	}
	w.container(s, name)
	w.inputs.mu.Lock()
	defer w.inputs.mu.Unlock()
	if w.inputs.resolved != 1 {
		t.Errorf("the environment was made %d times", w.inputs.resolved)
	}
}

// Attempts in which nothing ran do not push out the log that lastState names.
func TestThePreviousLogOutlivesAttemptsThatDidNotStart(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	s := w.startAgent()
	name := w.awaitRunning("a").Spec.Containers[0].Name
	w.host.mu.Lock()
	refused := vm.RunEnd{Code: 2, Tail: "boom"}
	w.host.runEnds = []vm.RunEnd{refused, refused, refused}
	w.host.mu.Unlock()
	w.host.end("tk-uid-a-0", vm.RunEnd{Code: 0, Tail: "error"}, "end")
	w.awaitPod("a", "runs again", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses[0]
		return s.Ready && s.RestartCount == 1
	})
	c := w.container(s, name)
	if want := filepath.Join(w.dir, "pods", "uid-a", "attempt-0", "main.log"); c.PreviousLog != want || !c.WholeVM {
		t.Errorf("previous log %q, want %q", c.PreviousLog, want)
	}
	if c.Log != filepath.Join(w.dir, "pods", "uid-a", "attempt-4", "main.log") {
		t.Errorf("log %q", c.Log)
	}
	if _, err := os.Stat(filepath.Dir(c.PreviousLog)); err != nil {
		t.Errorf("its directory: %v", err)
	}
}
