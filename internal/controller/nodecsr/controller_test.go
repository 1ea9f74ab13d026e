package nodecsr

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
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

// tokenSecret is what people of a fleet may write.
func tokenSecret(name, id string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name + "-bootstrap"}, Data: map[string][]byte{host.KeyTokenID: []byte(id)}}
}

// unreadable is a namespace that the manager may not read.
const unreadable = "unreadable"

// answered reconciles the request once, and returns its conditions and the events.
// Secrets can't be read at all: nothing depends on them.
func answered(t *testing.T, csr *certificatesv1.CertificateSigningRequest, objects ...client.Object) ([]certificatesv1.CertificateSigningRequestCondition, []string) {
	t.Helper()
	c := clienttest.AsServed(clienttest.NewBuilder(scheme(t)).WithObjects(append(objects, csr)...).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, secret := o.(*corev1.Secret); secret || key.Namespace == unreadable {
					return errors.New("may not be read")
				}
				return c.Get(ctx, key, o, opts...)
			},
		}).Build())
	heard := events.NewFakeRecorder(10)
	r := &Reconciler{Client: c, Reader: c, Recorder: heard}
	key := client.ObjectKeyFromObject(csr)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	got := &certificatesv1.CertificateSigningRequest{}
	if err := c.Get(t.Context(), key, got); err != nil {
		t.Fatal(err)
	}
	close(heard.Events)
	var told []string
	for event := range heard.Events {
		told = append(told, event)
	}
	return got.Status.Conditions, told
}

func isApproved(t *testing.T, conditions []certificatesv1.CertificateSigningRequestCondition) {
	t.Helper()
	if len(conditions) != 1 || conditions[0].Type != certificatesv1.CertificateApproved {
		t.Errorf("conditions = %+v, want one approval", conditions)
	}
}

func TestReconcileApproves(t *testing.T) {
	own := claimed(mac1, "mac-1", token)
	for name, c := range map[string]struct {
		csr     *certificatesv1.CertificateSigningRequest
		objects []client.Object
	}{
		"first":   {first().csr(t), []client.Object{&own, machineOf(own)}},
		"renewal": {renewal().csr(t), []client.Object{&own, machineOf(own), nodeOf(mac1)}},
		"serving": {serving().csr(t), []client.Object{&own, machineOf(own), nodeOf(mac1)}},
	} {
		t.Run(name, func(t *testing.T) {
			conditions, told := answered(t, c.csr, c.objects...)
			isApproved(t, conditions)
			if len(told) != 0 {
				t.Errorf("events %q", told)
			}
		})
	}
}

// A namesake in a namespace that cannot be read, whatever it claims, is no business
// of a Mac that is known by its own claim.
func TestANamesakeBlocksNobody(t *testing.T) {
	own := claimed(mac1, "mac-1", token)
	namesake := claimed(mac2, "mac-1", "fedcba", func(h *host.Host) { h.Spec.ClaimRef.Namespace = unreadable })
	for name, csr := range map[string]*certificatesv1.CertificateSigningRequest{"first": first().csr(t), "renewal": renewal().csr(t)} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{&own, &namesake, machineOf(own), machineOf(namesake), tokenSecret("mac-1", "other")}
			if name == "renewal" {
				objects = append(objects, nodeOf(mac1))
			}
			conditions, _ := answered(t, csr, objects...)
			isApproved(t, conditions)
		})
	}
}

// What is refused stays Pending, is never denied, and its Machine says why.
func TestReconcileLeavesPending(t *testing.T) {
	own, bare, neighbour := claimed(mac1, "mac-1", token), claimed(mac1, "mac-1", ""), claimed(mac2, "mac-2", "fedcba")
	controlPlane := nodeOf(mac1, func(n *corev1.Node) { n.Spec.ProviderID = "" })
	foreign := change(first(), func(r *request) { r.subject.CommonName = "system:node:mac-2" })
	for name, c := range map[string]struct {
		csr     *certificatesv1.CertificateSigningRequest
		objects []client.Object
		// says is in the one event; empty: there is none.
		says string
	}{
		"a Secret with the token of another Machine": {foreign.csr(t), []client.Object{&own, machineOf(own), &neighbour, machineOf(neighbour), tokenSecret("mac-2", token)}, "the token was made for Machine fleet/mac-1"},
		"a Secret with a token that no host bears":   {first().csr(t), []client.Object{&bare, machineOf(bare), tokenSecret("mac-1", token)}, ""},
		"a Machine named like a control-plane node":  {first().csr(t), []client.Object{&own, machineOf(own), controlPlane}, "has no providerID"},
		"renewal of a stray":                         {renewal().csr(t), []client.Object{nodeOf(mac1)}, ""},
		"Machine is gone":                            {first().csr(t), []client.Object{&own}, ""},
		"serving of another name":                    {change(serving(), func(r *request) { r.dns = []string{"mac-2"} }).csr(t), []client.Object{&own, machineOf(own), nodeOf(mac1)}, "the serving certificate of Node mac-1 is not approved"},
		"no end":                                     {change(first(), func(r *request) { r.seconds = nil }).csr(t), []client.Object{&own, machineOf(own)}, "expirationSeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			conditions, told := answered(t, c.csr, c.objects...)
			if len(conditions) != 0 {
				t.Errorf("conditions = %+v, want none: neither approved nor denied", conditions)
			}
			if (len(told) == 1) != (c.says != "") || !strings.Contains(strings.Join(told, "\n"), c.says) {
				t.Errorf("events %q, want %q", told, c.says)
			}
		})
	}
}

// A Mac asks for what it serves with as soon as it has an identity, often before its
// Node is there. Nothing changes the request afterwards, so that only being looked at
// again gets it approved.
func TestAServingRequestBeforeItsNodeIsApprovedLater(t *testing.T) {
	own := claimed(mac1, "mac-1", token)
	csr := serving().csr(t)
	c := clienttest.AsServed(clienttest.NewBuilder(scheme(t)).WithObjects(&own, machineOf(own), csr).Build())
	heard := events.NewFakeRecorder(10)
	r := &Reconciler{Client: c, Reader: c, Recorder: heard}
	key := client.ObjectKeyFromObject(csr)
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > 10*time.Second {
		t.Fatalf("looked at again after %s (%v), want a few seconds", result.RequeueAfter, err)
	}
	if len(heard.Events) != 0 {
		t.Errorf("told %q, and nothing is wrong", <-heard.Events)
	}
	if err := c.Create(t.Context(), nodeOf(mac1)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	got := &certificatesv1.CertificateSigningRequest{}
	if err := c.Get(t.Context(), key, got); err != nil {
		t.Fatal(err)
	}
	isApproved(t, got.Status.Conditions)
}
