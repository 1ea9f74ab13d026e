package pod

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// legacyWorld has a Mac on which that VM runs, and one that nobody knows.
func legacyWorld(t *testing.T, policy corev1.RestartPolicy) *world {
	w := newWorld(t, podtest.Legacy(policy))
	w.host.machines["ns-a"], w.host.machines["somebodys"] = true, true
	return w
}

func TestAGuestOfTheFirstSystemLivesOn(t *testing.T) {
	w := legacyWorld(t, corev1.RestartPolicyNever)
	delete(w.host.machines, "somebodys")
	s := w.startAgent()
	w.await("the VM is adopted", func() bool { return w.events.count("a", "Adopted") == 1 })
	if free := s.slots.Free(); free != 1 {
		t.Errorf("%d slots are free of two; want the VM counted once", free)
	}
	// Another agent of ours finds it again.
	w.stopAgent()
	s = w.startAgent()
	w.await("the VM is adopted again", func() bool { return w.events.count("a", "Adopted") == 2 })
	before := w.host.listed()
	w.await("a sweep begins and ends", func() bool { return w.host.listed() >= before+2 })
	if free := s.slots.Free(); free != 1 {
		t.Errorf("%d slots are free of two after a sweep; want the VM counted once", free)
	}
	if p := w.pod("a"); p.Status.Phase != corev1.PodRunning || p.Status.ContainerStatuses[0].ContainerID != "tart://ns-a" || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("status %+v", p.Status)
	}
	if got := w.host.names(); !slices.Equal(got, []string{"ns-a"}) || w.host.count("exec ") != 0 || w.host.count("stop ") != 0 {
		t.Fatalf("machines %v, history %v", got, w.host.history())
	}
	w.host.end("ns-a", vm.RunEnd{}, "end")
	p := w.awaitPod("a", "ends", state.HasEnded)
	if e := p.Status.ContainerStatuses[0].State.Terminated; e == nil || e.Reason != state.ReasonUnknown || !strings.Contains(e.Message, "agent before this one") {
		t.Errorf("end %+v", e)
	}
	w.await("its slot is free", func() bool { return s.slots.Free() == 2 })
}

func TestADeletedPodOfTheFirstSystemGoesWithItsGuest(t *testing.T) {
	for name, before := range map[string]func(w *world){
		"while it runs": func(w *world) {
			w.startAgent()
			w.await("adopted", func() bool { return w.events.count("a", "Adopted") == 1 })
			w.delete("a")
		},
		"before our agent comes": func(w *world) { w.delete("a"); w.startAgent() },
	} {
		t.Run(name, func(t *testing.T) {
			w := legacyWorld(t, corev1.RestartPolicyAlways)
			before(w)
			w.awaitGone("a")
			if got := w.host.names(); !slices.Equal(got, []string{"somebodys"}) {
				t.Errorf("machines %v", got)
			}
			if w.host.count("create ") != 0 {
				t.Errorf("history %v", w.host.history())
			}
		})
	}
}

func TestAnEndedGuestOfTheFirstSystemIsNotAdopted(t *testing.T) {
	for policy, phase := range map[corev1.RestartPolicy]corev1.PodPhase{corev1.RestartPolicyNever: corev1.PodFailed, corev1.RestartPolicyAlways: corev1.PodRunning} {
		w := newWorld(t, podtest.Legacy(policy))
		w.host.machines["ns-a"] = false
		w.startAgent()
		w.awaitPod("a", "goes on", func(p *corev1.Pod) bool {
			return p.Status.Phase == phase && (state.HasEnded(p) || p.Status.ContainerStatuses[0].RestartCount == 1)
		})
		if w.events.count("a", "Adopted") != 0 {
			t.Error("a VM that does not run was adopted")
		}
		w.stopAgent()
	}
}
