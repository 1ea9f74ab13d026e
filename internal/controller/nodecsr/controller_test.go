package nodecsr

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, infrav1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func machine(name string) *infrav1.ScalewayAppleSiliconMachine {
	return &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}}
}

func tokenSecret(name, id string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name + "-bootstrap"}, Data: map[string][]byte{host.KeyTokenID: []byte(id)}}
}

func reconcileCSR(t *testing.T, csr *certificatesv1.CertificateSigningRequest, objects ...client.Object) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(append(objects, csr)...).Build()
	r := &Reconciler{Client: c, Reader: c}
	key := client.ObjectKeyFromObject(csr)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	got := &certificatesv1.CertificateSigningRequest{}
	if err := c.Get(t.Context(), key, got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestReconcileApproves(t *testing.T) {
	got := reconcileCSR(t, first().csr(t), machine("mac-1"), tokenSecret("mac-1", "abcdef"))
	if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Type != certificatesv1.CertificateApproved {
		t.Errorf("conditions = %+v, want one approval", got.Status.Conditions)
	}
}

func TestReconcileApprovesARenewal(t *testing.T) {
	m := machine("mac-1")
	m.Spec.ProviderID = "x"
	if got := reconcileCSR(t, renewal().csr(t), m); len(got.Status.Conditions) != 1 {
		t.Errorf("conditions = %+v, want one approval", got.Status.Conditions)
	}
}

func TestReconcileLeavesPending(t *testing.T) {
	leaving := machine("mac-1")
	leaving.Finalizers = []string{infrav1.MachineFinalizer}
	now := metav1.Now()
	leaving.DeletionTimestamp = &now
	settled := machine("mac-1")
	settled.Spec.ProviderID = "x"
	namesake := settled.DeepCopy()
	namesake.Namespace = "elsewhere"
	foreign := first()
	foreign.subject.CommonName = "system:node:mac-9"
	for name, c := range map[string]struct {
		csr     *certificatesv1.CertificateSigningRequest
		objects []client.Object
	}{
		"foreign common name":   {foreign.csr(t), []client.Object{machine("mac-1"), tokenSecret("mac-1", "abcdef")}},
		"no Secret":             {first().csr(t), []client.Object{machine("mac-1")}},
		"Machine on its way":    {first().csr(t), []client.Object{leaving, tokenSecret("mac-1", "abcdef")}},
		"renewal of a stray":    {renewal().csr(t), nil},
		"renewal while leaves":  {renewal().csr(t), []client.Object{leaving}},
		"renewal unprovisioned": {renewal().csr(t), []client.Object{machine("mac-1")}},
		"renewal of namesakes":  {renewal().csr(t), []client.Object{settled, namesake}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reconcileCSR(t, c.csr, c.objects...); len(got.Status.Conditions) != 0 {
				t.Errorf("conditions = %+v, want none: neither approved nor denied", got.Status.Conditions)
			}
		})
	}
}
