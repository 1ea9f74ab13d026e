package nodecsr

import (
	"context"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
)

// One Mac that asks without end for what it does not get costs others no look.
func TestAMacThatAsksWithoutEnd(t *testing.T) {
	const many = 500
	hostile, good := claimed(mac1, "mac-1", token), claimed(mac2, "mac-2", "fedcba")
	objects := []client.Object{&hostile, machineOf(hostile), nodeOf(mac1), &good, machineOf(good)}
	name := func(i int) string { return fmt.Sprint("hostile-", i) }
	now := time.Now().Truncate(time.Second)
	for i := range many {
		csr := change(serving(), func(r *request) { r.dns = []string{"mac-2"} }).csr(t)
		csr.Name, csr.CreationTimestamp = name(i), metav1.NewTime(now)
		objects = append(objects, csr)
	}
	other := change(first(), func(r *request) {
		r.subject.CommonName = "system:node:mac-2"
		r.username = "system:bootstrap:fedcba"
	}).csr(t)
	other.Name = "other"
	lists := 0
	c := clienttest.AsServed(clienttest.NewBuilder(scheme(t)).WithObjects(append(objects, other)...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, hosts := list.(*infrav1.ScalewayAppleSiliconHostList); hosts {
				lists++
			}
			return c.List(ctx, list, opts...)
		},
	}).Build())
	clock := clocktesting.NewFakePassiveClock(now)
	r := &Reconciler{Client: c, Reader: c, Recorder: events.NewFakeRecorder(2 * many), Clock: clock}
	look := func(name string) time.Duration {
		t.Helper()
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	for i := range many {
		if again := look(name(i)); again != lookAgain {
			t.Fatalf("the %dth is looked at again after %s", i, again)
		}
	}
	if lists != mostTurns {
		t.Errorf("all hosts were listed %d times for %d requests", lists, many)
	}
	look("other")
	got := &certificatesv1.CertificateSigningRequest{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "other"}, got); err != nil {
		t.Fatal(err)
	}
	isApproved(t, got.Status.Conditions)
	// Later it has turns again, and what was there in vain for long waits longer.
	clock.SetTime(now.Add(10 * time.Minute))
	if again := look(name(0)); again != 10*time.Minute || lists != mostTurns+2 {
		t.Errorf("after ten minutes it is looked at again after %s, with %d lists", again, lists)
	}
	clock.SetTime(now.Add(20 * time.Hour))
	if again := look(name(0)); again != longest {
		t.Errorf("after a day it is looked at again after %s", again)
	}
}
