package cluster

import (
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
)

// Each change of a host counts all of them: of a thousand, a thousand copies each.
func TestCountingCopiesNoHosts(t *testing.T) {
	w := newWorld(t, infra("fr-par-1"), owner(), mac("a", "fr-par-1", infrav1.HostAvailable))
	copies := map[string]int{}
	w.client = clienttest.Copies{Client: w.client, Of: copies}
	got := w.reconcile(t, reports{"fr-par-1": listed()})
	if len(got.Status.FailureDomains) != 1 || copies["*v1alpha1.ScalewayAppleSiliconHostList"] != 0 {
		t.Errorf("copied lists: %v, domains %+v", copies, got.Status.FailureDomains)
	}
}
