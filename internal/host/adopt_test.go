package host_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// A second server of a Machine's name can be adopted, unless a Mac may be in use.
func TestNextAdoptionOfASecondServerOfAMachinesName(t *testing.T) {
	for by, there := range elsewhere() {
		machines := []infrav1.ScalewayAppleSiliconMachine{machine("m-9", there)}
		if step, _, why := host.NextAdoption(pooled(named("m-9"), adopted), machines, false); step != host.AdoptNote {
			t.Errorf("by %s: %s, %s", by, step, why)
		}
		if step, reason, why := host.NextAdoption(pooled(named("m-9"), adopted), machines, true); step != host.AdoptWait || reason != host.ReasonOwned || why == "" {
			t.Errorf("by %s, with a Ready Node: %s, %s", by, step, reason)
		}
	}
	if step, _, why := host.NextAdoption(pooled(named("x"), adopted), nil, true); step != host.AdoptNote {
		t.Errorf("of no Machine's name: %s, %s", step, why)
	}
}

func TestNextAdoption(t *testing.T) {
	trusted := func(h *host.Host) { h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: prefix, TrustDisk: true} }
	noted := func(h *host.Host) { h.Spec.Adopt.ServerName = "x" }
	alive := []infrav1.ScalewayAppleSiliconMachine{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m-9"}}}
	colliding := []infrav1.ScalewayAppleSiliconMachine{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: prefix + "9"}}}
	for name, row := range map[string]struct {
		host     *host.Host
		machines []infrav1.ScalewayAppleSiliconMachine
		step     host.AdoptStep
		reason   string
	}{
		"no wish":                    {pooled(named("x")), nil, host.AdoptNothing, ""},
		"foreign":                    {pooled(named("x"), adopted), alive, host.AdoptNote, ""},
		"noted":                      {pooled(named("x"), adopted, noted), alive, host.AdoptRename, ""},
		"named away":                 {pooled(named("adopting."+serverID), adopted, noted), alive, host.AdoptWipe, ""},
		"named away, trusted by now": {pooled(named("adopting."+serverID), trusted, noted), alive, host.AdoptNote, ""},
		"another's by now":           {pooled(named("y"), adopted, noted), alive, host.AdoptDrop, infrav1.ReasonChangedByOther},
		"foreign, trusted":           {pooled(named("x"), trusted), alive, host.AdoptNote, ""},
		"noted, trusted":             {pooled(named("x"), trusted, noted), alive, host.AdoptRename, ""},
		"noted, named":               {pooled(trusted, noted), alive, host.AdoptTrust, ""},
		"noted, another's by now":    {pooled(named("y"), trusted, noted), alive, host.AdoptDrop, infrav1.ReasonChangedByOther},
		"named, trusted":             {pooled(trusted), alive, host.AdoptTrust, ""},
		"not wiped":                  {pooled(dirtied, adopted), alive, host.AdoptWipe, ""},
		"not wiped, trusted":         {pooled(dirtied, trusted), alive, host.AdoptTrust, ""},
		"in the pool already":        {pooled(adopted), alive, host.AdoptDrop, ""},
		"in another pool":            {pooled(named("old-"+serverID), adopted), alive, host.AdoptNote, ""},
		"claimed":                    {pooled(claimed, adopted), alive, host.AdoptDrop, host.ReasonClaimed},
		"an order":                   {pooled(ordering, adopted), alive, host.AdoptDrop, host.ReasonClaimed},
		"a live Machine's by name":   {pooled(named("m-9"), adopted), alive, host.AdoptWait, host.ReasonOwned},
		"handed over":                {pooled(named("x"), handedOver, adopted), alive, host.AdoptWait, infrav1.ReasonHandedOver},
		"in maintenance":             {pooled(named("x"), maintained, trusted), alive, host.AdoptWait, infrav1.ReasonMaintenance},
		"never seen":                 {pooled(named(""), adopted), alive, host.AdoptWait, host.ReasonUnseen},
		"missing from the list":      {pooled(named("x"), func(h *host.Host) { h.Status.MissingSince = at(1) }, adopted), alive, host.AdoptWait, host.ReasonUnseen},
		"about to be deleted":        {pooled(named("x"), scheduled, adopted), alive, host.AdoptWait, infrav1.ReasonDeletionScheduled},
		"the prefix names a Machine": {pooled(named("x"), adopted), colliding, host.AdoptWait, host.ReasonBadPrefix},
	} {
		t.Run(name, func(t *testing.T) {
			step, reason, message := host.NextAdoption(row.host, row.machines, false)
			if step != row.step || reason != row.reason || (reason != "") != (message != "") {
				t.Errorf("step %s, reason %q: %s; want %s, %q", step, reason, message, row.step, row.reason)
			}
		})
	}
}

func TestAnAdoptionIsAClaimWithItsRelease(t *testing.T) {
	h := pooled(named("jane-test"), adopted)
	h.Status.Server.OSFamily = "sequoia"
	host.Adopt(h, "t-5", noon())
	if !host.WipeAllowed(h) || h.Spec.Release.Policy != infrav1.Recycle || h.Spec.Release.Origin != infrav1.OriginAdoption ||
		h.Spec.Release.PoolPrefix != prefix || h.Spec.Release.OSFamily != "sequoia" || h.Spec.ClaimRef.Name != "jane-test" || h.Spec.Adopt != nil || host.Clean(h) {
		t.Errorf("spec %+v", h.Spec)
	}
}

func TestATrustedDiskIsCleanAndItsOSUnknown(t *testing.T) {
	h := pooled(dirtied, adopted, func(h *host.Host) {
		h.Spec.Record.InstallEpoch = 4
		h.Spec.Record.HostKey = &infrav1.HostKey{Epoch: 4}
		h.Spec.Record.DetachedAt = at(3)
	})
	host.Trust(h, noon()) // by a clock that is behind the claim's
	if record := h.Spec.Record; !host.Clean(h) || record.InstallEpoch != 5 || record.HostKey != nil || record.DetachedAt != nil || h.Spec.Adopt != nil {
		t.Errorf("spec %+v", h.Spec)
	}
}

// What is given back is released in the write that claims it: no Machine has it meanwhile.
func TestGivingBackIsAClaimWithItsRelease(t *testing.T) {
	h := pooled(adopted)
	host.GiveBack(h, "t-6", noon())
	if !host.WipeAllowed(h) || h.Spec.Release.Policy != infrav1.Terminate || h.Spec.ClaimRef.Namespace != host.NoNamespace ||
		h.Spec.ClaimRef.Name != h.Status.Server.Name || h.Spec.Adopt != nil || host.Clean(h) || host.Phase(h, host.Observation{Now: noon()}) != infrav1.HostReleasing {
		t.Errorf("spec %+v", h.Spec)
	}
}
