package pod

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// debug adds an ephemeral container, and returns its status once there is one.
func (w *world) debug(name string) corev1.ContainerStatus {
	w.t.Helper()
	w.edit("a", func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "busybox"},
		})
	})
	var found corev1.ContainerStatus
	w.awaitPod("a", "a status of "+name, func(p *corev1.Pod) bool {
		i := slices.IndexFunc(p.Status.EphemeralContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
		if i >= 0 {
			found = p.Status.EphemeralContainerStatuses[i]
		}
		return i >= 0
	})
	return found
}

// kubectl debug waits until its container runs or has ended, and then shows its log.
func TestAnEphemeralContainerEndsAtOnceWithAReason(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	s := w.startAgent()
	w.awaitRunning("a")
	first := w.debug("debugger")
	ended := first.State.Terminated
	if ended == nil || ended.ExitCode != 128 || ended.Reason != state.ReasonUnsupported || !strings.Contains(ended.Message, "kubectl exec") ||
		ended.FinishedAt.IsZero() || first.Image != "busybox" {
		t.Errorf("status %+v", first)
	}
	w.debug("another")
	p := w.awaitRunning("a")
	if d := cmp.Diff(first, p.Status.EphemeralContainerStatuses[0]); d != "" {
		t.Errorf("the end changed with another container (-was +is):\n%s", d)
	}
	c, err := s.Container(t.Context(), "ns", "a", "", "debugger")
	if err != nil || c.Running || c.Log != "" || len(c.Pod.Status.EphemeralContainerStatuses) != 2 {
		t.Errorf("found as %+v, %v", c, err)
	}
	w.delete("a")
	w.awaitGone("a")
	if n := w.events.count("a", state.ReasonUnsupported); n != 2 {
		t.Errorf("%d events for two containers", n)
	}
	want := "a UnsupportedField spec.ephemeralContainers[1] (another) does not run: " + state.MessageEphemeral
	if all := w.events.all(); !slices.Contains(all, want) {
		t.Errorf("%q is not among %q", want, all)
	}
}

// Whoever debugs a Pod that has ended is told, too, whichever agent saw its end.
func TestAnEphemeralContainerOfAPodThatHasEnded(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	was := w.awaitPhase(corev1.PodSucceeded)
	w.debug("first")
	w.stopAgent()
	w.startAgent()
	s := w.debug("second")
	if s.State.Terminated == nil || s.State.Terminated.Reason != state.ReasonUnsupported {
		t.Errorf("status %+v", s)
	}
	is := w.pod("a")
	if d := cmp.Diff(was.Status.ContainerStatuses, is.Status.ContainerStatuses); d != "" || is.Status.Phase != corev1.PodSucceeded || len(is.Status.Conditions) != len(was.Status.Conditions) {
		t.Errorf("%s, %v, containers (-was +is):\n%s", is.Status.Phase, is.Status.Conditions, d)
	}
	w.await("an event", func() bool { return w.events.count("a", state.ReasonUnsupported) >= 2 })
}

// Nobody can take it away again: a Pod that waits is not lost for it.
func TestAPodGoesOnThatGotAnEphemeralContainerBeforeItsNode(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.edit("a", func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "early"}}}
	})
	w.startAgent()
	if p := w.awaitRunning("a"); len(p.Status.EphemeralContainerStatuses) != 1 {
		t.Errorf("status %+v", p.Status)
	}
}
