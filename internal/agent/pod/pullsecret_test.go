package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/macfleet/macfleet/internal/agent/kubetest"
	"github.com/macfleet/macfleet/internal/agent/pod/objects"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

func TestMissingPullSecretsAreNamedOnceInEachAttempt(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "there"}, {Name: ""}, {Name: "regcred"}}
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
		if strings.Contains(l, reason) && !strings.Contains(l, "There is no Secret regcred in") {
			t.Errorf("event %q", l)
		}
	}
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	w.await("it is told in the next attempt", func() bool { return w.events.count("a", reason) == 2 })
}

// The API takes an empty name with a warning only: it is no Secret that is missing.
func TestAnEmptyNameOfAPullSecretIsSkipped(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: ""}, {Name: "regcred"}, {Name: "gone"}}
	there := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "regcred"}}
	inputs := ClusterInputs{Objects: objects.New(kubetest.Client(fake.NewClientset(there)), nil, nil)}
	defer inputs.Objects.Close()
	inputs.Hold(p)
	secrets, err := inputs.PullSecrets(t.Context(), p)
	if err != nil || len(secrets) != 1 || secrets[0].Name != "regcred" {
		t.Errorf("%v, %v", secrets, err)
	}
}
