package cluster

import (
	"context"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// copying counts the lists of hosts that copy all they show.
type copying struct {
	client.Client
	copies *int
}

func (c copying) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(opts)
	if _, hosts := list.(*infrav1.ScalewayAppleSiliconHostList); hosts && !ptr.Deref(asked.UnsafeDisableDeepCopy, false) {
		*c.copies++
	}
	return c.Client.List(ctx, list, opts...)
}

// Each change of a host counts all of them: of a thousand, a thousand copies each.
func TestCountingCopiesNoHosts(t *testing.T) {
	w := newWorld(t, infra("fr-par-1"), owner(), mac("a", "fr-par-1", infrav1.HostAvailable))
	copies := 0
	w.client = copying{w.client, &copies}
	got := w.reconcile(t, reports{"fr-par-1": listed()})
	if len(got.Status.FailureDomains) != 1 || copies != 0 {
		t.Errorf("%d lists of hosts are copied, domains %+v", copies, got.Status.FailureDomains)
	}
}
