package pod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/admission"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

func TestAnEphemeralContainerIsRefusedOnce(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	for n, name := range []string{"debugger", "another"} {
		p := w.pod("a")
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name},
		})
		if err := w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), p, "ns"); err != nil {
			t.Fatal(err)
		}
		w.await("an event", func() bool { return w.events.count("a", admission.ReasonUnsupported) > n })
	}
	want := "a UnsupportedField This node runs a Pod as one macOS VM and cannot honour: spec.ephemeralContainers[1] (another); the Pod goes on without it"
	w.delete("a")
	w.awaitGone("a")
	if n := w.events.count("a", admission.ReasonUnsupported); n != 2 {
		t.Errorf("%d events for two containers", n)
	}
	all := w.events.all()
	if !slices.Contains(all, want) {
		t.Errorf("%q is not among %q", want, all)
	}
}
