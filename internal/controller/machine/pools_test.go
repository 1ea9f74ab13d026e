package machine

import (
	"strings"
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/machine"
)

// A Machine that names another namespace's pool gets no Mac, whatever is free.
func TestAPoolOfOthersIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		pools map[string][]string
		want  string
	}{
		"another namespace's": {map[string][]string{"others": {"spare-"}}, infrav1.ReasonPoolPrefixNotAllowed},
		"nobody's":            {nil, infrav1.ReasonPoolPrefixNotAllowed},
		"its own":             {map[string][]string{namespace: {"spare-"}}, machine.ReasonClaimed},
	} {
		t.Run(name, func(t *testing.T) {
			objects := pair("mac-1")
			objects[1].(*infrav1.ScalewayAppleSiliconMachine).Spec.AdoptPoolPrefix = "spare-"
			free := poolHost(serverID)
			free.Status.Server.Name = "spare-" + serverID
			w := newWorld(t, append(objects, free)...)
			w.r.NamespacePools = c.pools
			w.r.wire()
			w.settle("mac-1")
			if got := w.reason("mac-1", infrav1.HostClaimedCondition); got != c.want {
				t.Errorf("HostClaimed = %s, want %s", got, c.want)
			}
			if claimed := w.host(hostName).Spec.ClaimRef != nil; claimed != (c.want == machine.ReasonClaimed) {
				t.Errorf("claimed = %t", claimed)
			}
		})
	}
}

// A Mac goes to no pool that its Machine may not name, whatever was written there
// since the claim.
func TestARelease_GoesToNoPoolOfOthers(t *testing.T) {
	w := runningWorld(t)
	m := w.machine("mac-1")
	m.Spec.AdoptPoolPrefix = "spare-"
	w.update(m)
	w.deleteByCore()
	w.settle("mac-1")
	release := w.host(hostName).Spec.Release
	if !w.machineGone("mac-1") || release == nil || release.PoolPrefix != poolName {
		t.Errorf("gone = %t, release = %+v; want it in the pool %s", w.machineGone("mac-1"), release, poolName)
	}
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "Warning "+infrav1.ReasonPoolPrefixNotAllowed) {
		t.Errorf("events = %s", heard)
	}
}

// An intent that somebody wrote by hand, or that is older than the limit, is not
// fulfilled.
func TestAnIntentWithAPoolOfOthersIsDropped(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.visit("mac-1")
	w.visit("mac-1")
	m := w.machine("mac-1")
	m.Spec.AdoptPoolPrefix = "spare-"
	m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "by-hand"}
	w.update(m)
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.HostRef != nil || w.host(hostName).Spec.ClaimRef != nil || w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonPoolPrefixNotAllowed {
		t.Errorf("hostRef = %+v, HostClaimed = %s", m.Spec.HostRef, w.reason("mac-1", infrav1.HostClaimedCondition))
	}
}
