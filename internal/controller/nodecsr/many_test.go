package nodecsr

import (
	"context"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/host"
)

// listing counts uncached lists of all hosts.
type listing struct {
	client.Reader
	lists *int
}

func (l listing) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	*l.lists++
	return l.Reader.List(ctx, list, opts...)
}

// lagging is a cache that has not heard of any token, or claim.
type lagging struct{ client.Client }

func (c lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	if hosts, are := list.(*infrav1.ScalewayAppleSiliconHostList); are {
		for i := range hosts.Items {
			hosts.Items[i].Spec.ClaimRef, hosts.Items[i].Spec.Record.Bootstrap.TokenID = nil, ""
		}
	}
	return err
}

// boasting is a cache that shows the token on another host, which had it before.
type boasting struct{ client.Client }

func (c boasting) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	if hosts, are := list.(*infrav1.ScalewayAppleSiliconHostList); are {
		for i := range hosts.Items {
			h := &hosts.Items[i]
			if h.Spec.Record.Bootstrap.TokenID = ""; h.Spec.ServerID == mac2 {
				h.Spec.Record.Bootstrap.TokenID = token
			}
		}
	}
	return err
}

// Each Mac of a fleet asks, and a list of all hosts for each of them is a million hosts for a thousand Macs. Only where the
// cache does not show whose request it is are all of them listed, and what it shows is never believed.
func TestHostsAreListedWhereTheCacheDoesNotKnow(t *testing.T) {
	own, neighbour := claimed(mac1, "mac-1", token), claimed(mac2, "mac-2", "fedcba")
	objects := []client.Object{&own, &neighbour, machineOf(own), machineOf(neighbour), nodeOf(mac1)}
	for n := range 20 {
		other := claimed(fmt.Sprintf("33333333-3333-4333-8333-%012d", n), fmt.Sprintf("other-%d", n), fmt.Sprintf("token-%d", n))
		objects = append(objects, &other)
	}
	for _, c := range []struct {
		name  string
		csr   *certificatesv1.CertificateSigningRequest
		cache func(client.Client) client.Client
		lists int
	}{
		{"first", first().csr(t), func(c client.Client) client.Client { return c }, 0},
		{"renewal", renewal().csr(t), func(c client.Client) client.Client { return c }, 0},
		{"serving", serving().csr(t), func(c client.Client) client.Client { return c }, 0},
		{"first, and the cache lags", first().csr(t), func(c client.Client) client.Client { return lagging{c} }, 1},
		{"renewal, and the cache lags", renewal().csr(t), func(c client.Client) client.Client { return lagging{c} }, 1},
		{"first, and the cache shows another host", first().csr(t), func(c client.Client) client.Client { return boasting{c} }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := append([]client.Object{}, objects...)
			if c.csr.Spec.Username == first().username {
				all = withoutNode(all)
			}
			served := clienttest.AsServed(clienttest.NewBuilder(scheme(t)).WithObjects(append(all, c.csr)...).Build())
			lists := 0
			r := &Reconciler{Client: c.cache(served), Reader: listing{served, &lists}, Recorder: events.NewFakeRecorder(10)}
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c.csr)}); err != nil {
				t.Fatal(err)
			}
			got := &certificatesv1.CertificateSigningRequest{}
			if err := served.Get(t.Context(), client.ObjectKeyFromObject(c.csr), got); err != nil {
				t.Fatal(err)
			}
			isApproved(t, got.Status.Conditions)
			if lists != c.lists {
				t.Errorf("all hosts are listed %d times, want %d", lists, c.lists)
			}
		})
	}
}

// withoutNode is what there is before the Mac has joined.
func withoutNode(objects []client.Object) (left []client.Object) {
	for _, o := range objects {
		if o.GetNamespace() != "" || isHost(o) {
			left = append(left, o)
		}
	}
	return left
}

func isHost(o client.Object) bool {
	_, is := o.(*host.Host)
	return is
}
