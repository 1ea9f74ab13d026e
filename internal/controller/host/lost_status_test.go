package host

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// The server of a Machine that runs was named back to the pool by somebody else,
// and the status that would say so is lost: it is not taken for a fresh claim.
func TestALostStatusTakesNoServerBackFromThePool(t *testing.T) {
	w := inUse(t)
	m := &infrav1.ScalewayAppleSiliconMachine{}
	w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "m-1"}, m))
	m.Spec.ProviderID = host.ProviderID(zone, serverID)
	w.must(w.client.Update(w.ctx, m))
	w.must(w.cloud.RenameServer(w.ctx, zone, serverID, poolName))
	h := w.host()
	h.Status = infrav1.ScalewayAppleSiliconHostStatus{}
	w.must(w.client.Status().Update(w.ctx, h))
	w.cloud.Forget()
	for range 4 {
		w.must(w.step())
	}
	if calls := w.mutations(); len(calls) > 0 {
		t.Errorf("the server was changed: %v", calls)
	}
	if reason := w.reason(infrav1.NameInSyncCondition); reason != infrav1.ReasonChangedByOther {
		t.Errorf("NameInSync reason = %q", reason)
	}
}
