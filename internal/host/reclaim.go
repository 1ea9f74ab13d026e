package host

import (
	"cmp"
	"fmt"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// How often, and for how long, a host must be seen stray before it is taken back.
const (
	reclaimSweeps = 2
	// DefaultReclaimAfter outlasts every claim and move that is under way.
	DefaultReclaimAfter = 10 * time.Minute
)

// Sighting is how long a host has been seen stray without a break.
type Sighting struct {
	Sweeps int
	Since  time.Time
}

// ClusterState is what matters of a Cluster that a host may be of.
type ClusterState struct {
	Namespace, Name string
	// Missing: it is not here, e.g. since it was moved.
	Missing, Paused, Deleting bool
}

// ReclaimInput is all that decides whether the sweep may take a host back.
type ReclaimInput struct {
	Host   *Host
	Owners Owners
	Naming Naming
	// PoolPrefix of the pool that the host would join; empty: there is none.
	PoolPrefix string
	Sighting   Sighting
	// Clusters are the claim's own, or, where there is no claim, all that use the
	// host's zone.
	Clusters []ClusterState
	// NodeReady: a Ready Node bears the host's providerID.
	NodeReady bool
	// Block of the storm guard.
	Block Block
	// After is how long a host must have been seen stray; default DefaultReclaimAfter.
	After time.Duration
	Now   time.Time
}

// Refusal is why a host is not taken back, or not claimed again; its zero value: it is.
type Refusal struct{ Reason, Message string }

// Reasons of a Refusal that are not conditions' reasons elsewhere.
const (
	RefusedReportOnly  = "ReportOnly"
	RefusedNotStray    = "NotStray"
	RefusedForeign     = "Foreign"
	RefusedNoPool      = "NoPool"
	RefusedUncertain   = "ServerUncertain"
	RefusedKeptBack    = "KeptBack"
	RefusedTooSoon     = "TooSoon"
	RefusedCluster     = "Cluster"
	RefusedNodeReady   = "NodeReady"
	RefusedDestruction = "DestructionHeld"
)

// MayReclaim says why the sweep must leave a host alone, or nothing. The first
// rule that refuses decides; all of them must agree before a disk is wiped that
// nobody asked to have wiped.
func MayReclaim(in ReclaimInput) Refusal {
	h := in.Host
	name := h.Status.Server.Name
	kind, accounted := Stray(h, in.Owners, in.Naming)
	switch {
	case in.Naming.Claimed == "":
		return Refusal{RefusedReportOnly, "no prefix of claimed names is set; strays are only reported"}
	case kind == "":
		return Refusal{RefusedNotStray, "the host is " + accounted}
	case in.Owners.Have(h):
		return Refusal{RefusedForeign, fmt.Sprintf("the name %q is that of a live Machine, which has another server; a person decides", name)}
	case !claimedName(h, in.Naming.Claimed) || InPool(name, h.Spec.ServerID, in.Naming.Pools...):
		// Only names that this cluster gives can have been this cluster's; a pool's name
		// never is one, whatever the claim says.
		return Refusal{RefusedForeign, fmt.Sprintf("the name %q is not one of a claim of this cluster", name)}
	case in.PoolPrefix == "":
		return Refusal{RefusedNoPool, "no default pool prefix is set; the host has no pool to go to"}
	}
	if refusal := cmp.Or(refuseUncertain(h), refuseKeptBack(h, in.Now), refuseTooSoon(in), refuseCluster(in.Clusters)); refusal != (Refusal{}) {
		return refusal
	}
	switch {
	case in.NodeReady: // the Mac works as a Node, for whomever
		return Refusal{RefusedNodeReady, "a Ready Node is on this host"}
	case in.Block.Reason != "": // the storm guard, or a list that is not believed
		return Refusal{RefusedDestruction, in.Block.Message}
	}
	return Refusal{}
}

// refuseUncertain: the vendor does not show a delivered server that stays.
func refuseUncertain(h *Host) Refusal {
	switch {
	case !h.DeletionTimestamp.IsZero():
		return Refusal{RefusedUncertain, "the host is being removed"}
	case h.Status.MissingSince != nil, h.Status.Phase == infrav1.HostGone:
		return Refusal{RefusedUncertain, "the server is missing from the vendor's list"}
	case h.Status.Server.DeletionScheduled:
		return Refusal{RefusedUncertain, "the server is scheduled for deletion"}
	case !h.Status.Server.Delivered:
		return Refusal{RefusedUncertain, "the server is not delivered"}
	case h.Spec.ClaimRef != nil && ChangedByOther(h):
		return Refusal{RefusedUncertain, "the server was named by somebody else"}
	}
	return Refusal{}
}

// refuseKeptBack: a person, or the host's own record, keeps it from the pool.
func refuseKeptBack(h *Host, now time.Time) Refusal {
	switch {
	case h.Spec.Maintenance != nil:
		return Refusal{RefusedKeptBack, "the host is in maintenance"}
	case Quarantined(h, now):
		return Refusal{RefusedKeptBack, "the host is quarantined"}
	case h.Spec.Record.DetachedAt != nil:
		return Refusal{RefusedKeptBack, "the host was detached on purpose"}
	}
	return Refusal{}
}

// refuseTooSoon: a claim or a move may be on its way.
func refuseTooSoon(in ReclaimInput) Refusal {
	after := cmp.Or(in.After, DefaultReclaimAfter)
	if in.Sighting.Sweeps < reclaimSweeps || in.Now.Sub(in.Sighting.Since) < after {
		return Refusal{RefusedTooSoon, fmt.Sprintf("seen stray in %d sweeps; two are needed, and %s between", in.Sighting.Sweeps, after)}
	}
	return Refusal{}
}

// refuseCluster: a Cluster that is missing, paused or going may have its Machines
// elsewhere, or end them itself.
func refuseCluster(clusters []ClusterState) Refusal {
	if len(clusters) == 0 {
		return Refusal{RefusedCluster, "no Cluster here uses the zone"}
	}
	for _, c := range clusters {
		name := c.Namespace + "/" + c.Name
		switch {
		case c.Missing:
			return Refusal{RefusedCluster, "Cluster " + name + " is not here"}
		case c.Paused:
			return Refusal{RefusedCluster, "Cluster " + name + " is paused"}
		case c.Deleting:
			return Refusal{RefusedCluster, "Cluster " + name + " is being deleted"}
		}
	}
	return Refusal{}
}

// Reclaim records the release of a stray host. One that bears no claim is claimed
// with the token first, in the name that it has: a wipe wants the claim it ends.
// The server keeps its OS family: the pool has Machines that ask for one.
func Reclaim(in ReclaimInput, token string) {
	h := in.Host
	if h.Spec.ClaimRef == nil {
		Claim(h, infrav1.ClaimReference{
			Cluster: in.Clusters[0].Name, Namespace: in.Clusters[0].Namespace, Name: h.Status.Server.Name, Token: token,
		}, in.Now)
	}
	h.Spec.Release = &infrav1.Release{
		Token: h.Spec.ClaimRef.Token, Policy: infrav1.Recycle, Origin: infrav1.OriginReclaim,
		PoolPrefix: in.PoolPrefix, OSFamily: h.Status.Server.OSFamily, RequestedAt: *stamp(in.Now),
	}
	RecordDisruption(h, in.Now)
}
