package machine

import (
	"errors"
	"testing"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/requeue"
)

// Between a read and the act that follows from it the Machine may have become
// another: what takes or wipes a Mac looks again, past the cache.
func TestNothingFollowsFromAMachineThatHasChanged(t *testing.T) {
	another := func(v *visit, _ *infrav1.ScalewayAppleSiliconMachine) { v.Machine.UID = "before" }
	provisionedSince := func(v *visit, _ *infrav1.ScalewayAppleSiliconMachine) { v.Machine.Spec.ProviderID = "before" }
	noIntent := func(_ *visit, m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = nil }
	otherToken := func(_ *visit, m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef.ClaimToken = "t-2" }
	otherHost := func(_ *visit, m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef.Name = "other" }
	moved := func(_ *visit, m *infrav1.ScalewayAppleSiliconMachine) {
		m.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	}
	same := func(*visit, *infrav1.ScalewayAppleSiliconMachine) {}
	claim := func(w *world, v *visit) error { return w.r.machines.confirmHostRef(t.Context(), v, false) }
	again := func(w *world, v *visit) error { return w.r.machines.confirmHostRef(t.Context(), v, true) }
	release := func(w *world, v *visit) error { return w.r.machines.confirmDeletion(t.Context(), v) }
	recovery := func(w *world, v *visit) error { return w.r.disruption.confirm(t.Context(), v) }
	for name, row := range map[string]struct {
		confirm func(*world, *visit) error
		change  func(*visit, *infrav1.ScalewayAppleSiliconMachine)
		deleted bool
		stale   bool
	}{
		"a claim":                        {claim, same, false, false},
		"a claim, created again":         {claim, another, false, true},
		"a claim, dropped":               {claim, noIntent, false, true},
		"a claim, with another token":    {claim, otherToken, false, true},
		"a claim, of another host":       {claim, otherHost, false, true},
		"a claim, deleted":               {claim, same, true, true},
		"the same claim, deleted":        {again, same, true, false},
		"the same claim, created again":  {again, another, true, true},
		"a release":                      {release, same, true, false},
		"a release, not deleted":         {release, same, false, true},
		"a release, created again":       {release, another, true, true},
		"a release, dropped":             {release, noIntent, true, true},
		"a release, with another token":  {release, otherToken, true, true},
		"a release, moved":               {release, moved, true, true},
		"a recovery":                     {recovery, same, false, false},
		"a recovery, created again":      {recovery, another, false, true},
		"a recovery, provisioned since":  {recovery, provisionedSince, false, true},
		"a recovery, dropped":            {recovery, noIntent, false, true},
		"a recovery, with another token": {recovery, otherToken, false, true},
		"a recovery, deleted":            {recovery, same, true, true},
		"a recovery, moved":              {recovery, moved, false, true},
		"a recovery, of a Machine on hold": {recovery, func(_ *visit, m *infrav1.ScalewayAppleSiliconMachine) {
			m.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""}
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := pair("mac-1")
			m := objects[1].(*infrav1.ScalewayAppleSiliconMachine)
			m.UID, m.Finalizers = "now", []string{infrav1.MachineFinalizer}
			m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "t-1"}
			w := newWorld(t, objects...)
			v := &visit{Snapshot: machine.Snapshot{Machine: w.machine("mac-1")}}
			now := w.machine("mac-1")
			row.change(v, now)
			w.update(now)
			if row.deleted {
				w.delete(now)
			}
			if err := row.confirm(w, v); errors.Is(err, requeue.ErrStale) != row.stale || err != nil && !row.stale {
				t.Errorf("%v; want it stale: %t", err, row.stale)
			}
		})
	}
}
