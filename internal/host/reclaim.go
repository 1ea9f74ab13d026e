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
	// Hold of the storm guard.
	Hold Hold
	// After is how long a host must have been seen stray; default DefaultReclaimAfter.
	After time.Duration
	Now   time.Time
}

// Refusal is why a host is not taken back; its zero value: it is.
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
	for _, rule := range []func(ReclaimInput) Refusal{
		refuseReportOnly, refuseNotStray, refuseForeign, refuseNoPool, refuseUncertain, refuseKeptBack,
		refuseTooSoon, refuseCluster, refuseNode, refuseHeld,
	} {
		if refusal := rule(in); refusal.Reason != "" {
			return refusal
		}
	}
	return Refusal{}
}

// refuseReportOnly: without a prefix the sweep counts and touches nothing.
func refuseReportOnly(in ReclaimInput) Refusal {
	if in.Naming.Claimed == "" {
		return Refusal{RefusedReportOnly, "no prefix of claimed names is set; strays are only reported"}
	}
	return Refusal{}
}

// refuseNotStray: something accounts for the host.
func refuseNotStray(in ReclaimInput) Refusal {
	if kind, why := Stray(in.Host, in.Owners, in.Naming); kind == "" {
		return Refusal{RefusedNotStray, "the host is " + why}
	}
	return Refusal{}
}

// refuseForeign: only names that this cluster gives can have been this cluster's;
// a pool's name never is one, whatever the claim says.
func refuseForeign(in ReclaimInput) Refusal {
	name := in.Host.Status.Server.Name
	if !claimedName(name, in.Naming.Claimed) || InPool(name, in.Host.Spec.ServerID, in.Naming.Pools...) {
		return Refusal{RefusedForeign, fmt.Sprintf("the name %q is not one of a claim of this cluster", name)}
	}
	return Refusal{}
}

// refuseNoPool: there is no pool to bring the host back to.
func refuseNoPool(in ReclaimInput) Refusal {
	if in.PoolPrefix == "" {
		return Refusal{RefusedNoPool, "no default pool prefix is set; the host has no pool to go to"}
	}
	return Refusal{}
}

// refuseUncertain: the vendor does not show a delivered server that stays.
func refuseUncertain(in ReclaimInput) Refusal {
	switch h := in.Host; {
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
func refuseKeptBack(in ReclaimInput) Refusal {
	switch {
	case in.Host.Spec.Maintenance != nil:
		return Refusal{RefusedKeptBack, "the host is in maintenance"}
	case Quarantined(in.Host, in.Now):
		return Refusal{RefusedKeptBack, "the host is quarantined"}
	case in.Host.Spec.Record.DetachedAt != nil:
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
func refuseCluster(in ReclaimInput) Refusal {
	if len(in.Clusters) == 0 {
		return Refusal{RefusedCluster, "no Cluster here uses the zone"}
	}
	for _, c := range in.Clusters {
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

// refuseNode: the Mac works as a Node, for whomever.
func refuseNode(in ReclaimInput) Refusal {
	if in.NodeReady {
		return Refusal{RefusedNodeReady, "a Ready Node is on this host"}
	}
	return Refusal{}
}

// refuseHeld: the storm guard, or a list that is not believed.
func refuseHeld(in ReclaimInput) Refusal {
	if in.Hold.Reason != "" {
		return Refusal{RefusedDestruction, in.Hold.Message}
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
	Disturb(h, in.Now)
}
