package host

import (
	"cmp"
	"fmt"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// StagedClaim is what the Secret <machine>-bootstrap tells of a claim: only the
// host controller writes it, once the host has shown its owner's name.
type StagedClaim struct {
	Token string
	Epoch int64
}

// Claimant is a Machine that means a host which nobody has claimed, and what its
// Secret holds.
type Claimant struct {
	Machine *infrav1.ScalewayAppleSiliconMachine
	Staged  StagedClaim
}

// Evidence is how well it is proved that a Machine had a host before; more is
// better, and zero is none. The name of a server is no evidence: anybody can name a
// Machine like it.
type Evidence int

// The kinds of evidence.
const (
	EvidenceNone Evidence = iota
	// EvidenceStatus: the Machine's status shows the server.
	EvidenceStatus
	// EvidenceSecret: its Secret holds the token of its hostRef, staged for an install
	// epoch that is not over.
	EvidenceSecret
	// EvidenceProviderID: its spec.providerID is the server's.
	EvidenceProviderID
)

// EvidenceOf says what shows that the claimant had the host before. The status,
// the Secret and providerID are written by the manager alone.
func EvidenceOf(c Claimant, h *Host) Evidence {
	m := c.Machine
	ref := m.Spec.HostRef
	switch {
	case h.Spec.ServerID == "":
		return EvidenceNone
	case m.Spec.ProviderID != "":
		if m.Spec.ProviderID == ProviderID(h.Spec.Zone, h.Spec.ServerID) {
			return EvidenceProviderID
		}
		return EvidenceNone // its Mac is another one for good
	case ref != nil && ref.Name == h.Name && staged(c.Staged, ref.ClaimToken, h):
		return EvidenceSecret
	case m.Status.ServerID == h.Spec.ServerID:
		return EvidenceStatus
	}
	return EvidenceNone
}

// staged: the Secret is of the hostRef's claim, and of no epoch that ended with a
// wipe since. A Host that was rebuilt remembers no epoch.
func staged(s StagedClaim, token string, h *Host) bool {
	return token != "" && s.Token == token && s.Epoch > 0 && h.Spec.Record.InstallEpoch <= s.Epoch
}

// ClaimAgainInput is what MayClaimAgain decides from.
type ClaimAgainInput struct {
	Claimant

	// Host bears the Machine's name at the vendor, and no claim.
	Host *Host
	// Rivals are other live Machines of the same name that mean this host.
	Rivals []Claimant
	// PoolPrefix is the pool's that the Machine's own name starts with; empty: none.
	PoolPrefix string
	// MissingOwner is an owner, or an owner's owner, that ownerReferences name and
	// that does not exist, so that the API server is about to have the Machine deleted.
	// That is how objects look that were restored from a backup. Empty: none.
	MissingOwner string
	Now          time.Time
}

// MayClaimAgain says why a Machine must not claim the host again whose server bears
// its name, or nothing. What follows from the claim is that the Mac is wiped when
// the Machine goes.
func MayClaimAgain(in ClaimAgainInput) Refusal {
	return cmp.Or(refuseUnproved(in), refusePooled(in), refuseRival(in), refuseLetGo(in), refuseOrphaned(in), refuseWithheld(in))
}

// refuseUnproved: anybody can name a Machine like a server and write a hostRef.
func refuseUnproved(in ClaimAgainInput) Refusal {
	if EvidenceOf(in.Claimant, in.Host) != EvidenceNone {
		return Refusal{}
	}
	return Refusal{infrav1.ReasonClaimConflict, fmt.Sprintf("the server of host %s bears this Machine's name, and nothing shows that this Machine ever had it: "+
		"neither spec.providerID, nor Secret %s, nor status.serverID; nothing is claimed, and deleting this object releases nothing: "+
		"delete it, or, where it did have it, restore that Secret from a backup",
		in.Host.Name, BootstrapSecretName(in.Machine.Name))}
}

// refusePooled: a server of a pool's name is the pool's, and whoever is named like
// it was never given a Mac. What was provisioned was, before the pool was named so.
func refusePooled(in ClaimAgainInput) Refusal {
	if in.PoolPrefix == "" || EvidenceOf(in.Claimant, in.Host) == EvidenceProviderID {
		return Refusal{}
	}
	return Refusal{infrav1.ReasonClaimConflict, fmt.Sprintf("the server of host %s is named as the pool %q names what is free, and so is this Machine: nothing is claimed, and deleting this object releases nothing; "+
		"give the Machine another name", in.Host.Name, in.PoolPrefix)}
}

// refuseRival: where two Machines of one name mean the host, a manifest may be a copy
// or made up. Its status is not, for applying a manifest writes none: who has that,
// and more evidence than the other, has the host. Otherwise neither claims it before
// a person has deleted one: a wrong guess ends in a wipe.
func refuseRival(in ClaimAgainInput) Refusal {
	for _, rival := range in.Rivals {
		if rival.Machine.UID != in.Machine.UID && !outranks(in.Claimant, rival, in.Host) {
			return Refusal{infrav1.ReasonClaimConflict, fmt.Sprintf("host %s is meant by Machine %s/%s too, and nothing shows for certain whose it is: nothing is claimed, and deleting this object releases nothing; delete the one of the two that never had it",
				in.Host.Name, rival.Machine.Namespace, rival.Machine.Name)}
		}
	}
	return Refusal{}
}

// outranks reports that the first has more evidence, its status among it, or that
// the second has none.
func outranks(a, b Claimant, h *Host) bool {
	if EvidenceOf(b, h) == EvidenceNone {
		return true
	}
	return a.Machine.Status.ServerID == h.Spec.ServerID && kinds(a, h) > kinds(b, h)
}

// kinds counts what shows that the claimant had the host, each for itself.
func kinds(c Claimant, h *Host) int {
	n, ref := 0, c.Machine.Spec.HostRef
	for _, shows := range []bool{
		c.Machine.Spec.ProviderID == ProviderID(h.Spec.Zone, h.Spec.ServerID),
		ref != nil && ref.Name == h.Name && staged(c.Staged, ref.ClaimToken, h),
		c.Machine.Status.ServerID == h.Spec.ServerID,
	} {
		if shows {
			n++
		}
	}
	return n
}

// refuseLetGo: the host was given away on purpose.
func refuseLetGo(in ClaimAgainInput) Refusal {
	switch record := in.Host.Spec.Record; {
	case record.DetachedAt != nil:
		return Refusal{infrav1.ReasonDetached, "host " + in.Host.Name + " was detached on purpose"}
	case record.HandedOverAt != nil:
		return Refusal{infrav1.ReasonHandedOver, "host " + in.Host.Name + " was handed over to another management cluster"}
	}
	return Refusal{}
}

// refuseOrphaned: a claim that the API server is about to end would wipe the Mac.
func refuseOrphaned(in ClaimAgainInput) Refusal {
	if in.MissingOwner == "" {
		return Refusal{}
	}
	return Refusal{infrav1.ReasonClaimConflict, Orphaned(in.Host.Name, in.MissingOwner)}
}

// Orphaned is what is said of a Machine whose owner does not exist, about its host.
func Orphaned(hostName, owner string) string {
	return fmt.Sprintf("metadata.ownerReferences lead to %s, which does not exist, as after a restore: the API server is about to have this object deleted; "+
		"host %s stays as it is, and is taken back once no reference is wrong", owner, hostName)
}

// refuseWithheld: a person keeps the host out of every automatic act.
func refuseWithheld(in ClaimAgainInput) Refusal {
	switch h := in.Host; {
	case h.Spec.Maintenance != nil:
		return Refusal{infrav1.ReasonMaintenance, fmt.Sprintf("host %s is in maintenance (%s): it is claimed again when spec.maintenance is removed", h.Name, h.Spec.Maintenance.Reason)}
	case Quarantined(h, in.Now):
		return Refusal{infrav1.ReasonQuarantined, fmt.Sprintf("host %s is quarantined (%s): it is claimed again when spec.quarantine is removed", h.Name, h.Spec.Quarantine.Reason)}
	}
	return Refusal{}
}

// Withheld reports that the refusal ends when a person ends it: the Machine has the
// right to the host, and its deletion waits for that.
func (r Refusal) Withheld() bool {
	return r.Reason == infrav1.ReasonMaintenance || r.Reason == infrav1.ReasonQuarantined
}
