package host

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Two managers that sweep at once would each be right, and wipe twice.
func TestRequirement001_OnlyTheLeaderListsAndSweeps(t *testing.T) {
	for name, runnable := range map[string]manager.LeaderElectionRunnable{"inventory": &Inventory{}, "sweep": &Sweep{}} {
		if !runnable.NeedLeaderElection() {
			t.Errorf("the %s runs beside the leader", name)
		}
	}
}
