package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

func TestMissingPullSecretsAreNamedOnceInEachAttempt(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "there"}, {Name: "regcred"}}
	w := newWorld(t, p)
	w.inputs.pullSecrets = []corev1.Secret{{}}
	w.inputs.pullSecrets[0].Name = "there"
	w.host.pullErrs = []error{vm.ErrAuth, vm.ErrAuth}
	w.startAgent()
	w.awaitRunning("a")
	const reason = "FailedToRetrieveImagePullSecret"
	if n := w.events.count("a", reason); n != 1 {
		t.Errorf("%d events in an attempt of three pulls: %v", n, w.events.all())
	}
	for _, l := range w.events.all() {
		if strings.Contains(l, reason) && (!strings.Contains(l, "regcred") || strings.Contains(l, "there,")) {
			t.Errorf("event %q", l)
		}
	}
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	w.await("it is told in the next attempt", func() bool { return w.events.count("a", reason) == 2 })
}
