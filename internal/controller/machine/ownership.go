package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/memo"
	"github.com/macfleet/macfleet/internal/order"
)

// ownership is what a claim is worth when its Machine goes.
type ownership int

const (
	// ownershipOurs: the host carries our token.
	ownershipOurs ownership = iota
	// ownershipNone: there is nothing to release.
	ownershipNone
	// ownershipUnknown: it cannot be told yet.
	ownershipUnknown
)

// ownerships says what a claim is worth when its Machine is deleted.
type ownerships struct {
	client   client.Client
	reader   client.Reader
	claims   *claims
	gone     *goneServers
	machines *machines
	nodes    *nodes
	orders   *order.Placer
	releases *releases
	rights   *rights
}

// claimOwnership says what the claim is worth when the Machine is deleted, from an
// uncached read. A Host that was rebuilt, and whose server bears the Machine's
// name, is claimed again first: only what is claimed can be released.
func (p *ownerships) claimOwnership(ctx context.Context, v *visit) (ownership, error) {
	if host.OrderMeant(v.Machine) {
		if done, err := p.ownershipOfOrder(ctx, v); done || err != nil {
			return ownershipOurs, err
		}
	}
	h, verdict, err := p.claims.judgeClaim(ctx, v, p.reader)
	if err != nil {
		return ownershipUnknown, err
	}
	switch verdict {
	case host.Held, host.Releasing:
		v.Host = h
		return ownershipOurs, nil
	case host.ClaimAgain:
		return p.ownershipOfUnclaimed(ctx, v, h)
	case host.Recreated:
		return p.ownershipOfRecreated(ctx, v, h)
	case host.Copied:
		v.released = machine.Copied(v.Machine, h)
		return ownershipNone, nil
	case host.Lost:
		if host.HoldsClaim(h, v.Machine) {
			v.Host = h
			return ownershipOurs, nil
		}
		return ownershipNone, p.nodes.deleteOwnNode(ctx, v)
	case host.Acquire, host.ChooseAgain:
		if err := p.barClaim(ctx, h, v.Token()); err != nil {
			return ownershipUnknown, err
		}
		return ownershipNone, p.nodes.deleteOwnNode(ctx, v) // the Mac may have joined before its claim was lost
	}
	if h == nil {
		return p.ownershipOfMissing(ctx, v)
	}
	if h.Spec.ClaimRef == nil && h.Status.Server.Name != "" {
		return ownershipNone, p.nodes.deleteOwnNode(ctx, v) // it is known, and nobody's
	}
	return p.blocked(v), nil
}

// ownershipOfOrder is claimOwnership for a spec.hostRef that is an order. Done: v.Host is the
// order. Where nothing was made of it yet, the order is made with its release, so
// that another manager's that is on its way finds it taken: it would be a server
// for nobody.
func (p *ownerships) ownershipOfOrder(ctx context.Context, v *visit) (done bool, err error) {
	if moved, err := p.claims.followOrder(ctx, v, p.reader); err != nil || moved {
		return false, err
	}
	h, verdict, err := p.claims.judgeClaim(ctx, v, p.reader)
	if err != nil {
		return false, err
	}
	switch verdict {
	case host.Ordering, host.Releasing:
		v.Host = h
		return true, nil
	case host.PlaceOrder:
		if err := p.machines.confirmDeletion(ctx, v); err != nil {
			return false, err
		}
		h = order.New(v.Machine, v.Zone(), v.ClaimRef())
		if h.Spec.Zone == "" || h.Spec.Order.Type == "" {
			return false, nil // it could never have been placed
		}
		h.Spec.Release = p.releases.newRelease(v, infrav1.Terminate)
		v.Host = h
		_, err = p.orders.Place(ctx, p.client, p.reader, h, nil) // a limit holds up nothing that is released
		return true, lostRace(err)
	}
	return false, nil
}

// ownershipOfUnclaimed is claimOwnership for a host whose server bears the Machine's name.
// Where nothing proves that the Machine had it, nothing is released.
func (p *ownerships) ownershipOfUnclaimed(ctx context.Context, v *visit, h *host.Host) (ownership, error) {
	refusal, err := p.rights.mayClaimAgain(ctx, v, h)
	switch {
	case err != nil:
		return ownershipUnknown, err
	case refusal.Withheld():
		v.released = machine.False(infrav1.ReasonReleaseBlocked, "%s", refusal.Message)
		return ownershipUnknown, nil
	case refusal.Reason != "":
		v.released = machine.False(refusal.Reason, "%s", refusal.Message)
		return ownershipNone, nil
	}
	return ownershipOurs, p.claims.acquire(ctx, v, h, host.ClaimAgain)
}

// ownershipOfRecreated is claimOwnership for a host whose claim an earlier object of this
// name made. An object that the API server deletes because a restore left it
// without its owner releases nothing.
func (p *ownerships) ownershipOfRecreated(ctx context.Context, v *visit, h *host.Host) (ownership, error) {
	missing, err := p.machines.missingOwner(ctx, v.Machine)
	if err != nil {
		return ownershipUnknown, err
	}
	if missing != "" {
		v.released = machine.False(infrav1.ReasonClaimConflict, "%s", host.Orphaned(h.Name, missing))
		return ownershipNone, nil
	}
	v.Host = h
	return ownershipOurs, p.claims.recordUID(ctx, v, h)
}

// ownershipOfMissing is claimOwnership for a Host that does not exist.
func (p *ownerships) ownershipOfMissing(ctx context.Context, v *visit) (ownership, error) {
	lost, err := p.gone.hostIsLost(ctx, v)
	if err != nil {
		return ownershipUnknown, err
	}
	if lost {
		return ownershipNone, p.nodes.deleteOwnNode(ctx, v)
	}
	return p.blocked(v), nil
}

// blocked says why the Machine cannot go yet, and the way out where time alone will
// not bring it: detaching recognises that.
func (p *ownerships) blocked(v *visit) ownership {
	name := v.Machine.Spec.HostRef.Name
	v.released = machine.False(infrav1.ReasonReleaseBlocked, "host %s is not in the inventory: it is released once it is found again, or forgotten once its server is proved gone", name)
	if v.proof == machine.ProofImpossible {
		zone, _ := host.SplitName(name)
		v.released = machine.False(infrav1.ReasonReleaseBlocked, "host %s is not in the inventory, and the lists of zone %s stay empty, as with lost rights: mend those; or, if the server is gone, annotate this object with %s=true and set its status.serverID to null", name, zone, clusterv1.PausedAnnotation)
	}
	return ownershipUnknown
}

// barAnnotation on a host holds the last token that must not claim it any more. Written by
// macfleet.
const barAnnotation = "infrastructure.cluster.x-k8s.io/barred-claim"

// barClaim changes a free Host, so that another manager's claim with this token that
// is on its way meets a conflict: it would be held for a Machine that is no more.
func (p *ownerships) barClaim(ctx context.Context, h *host.Host, token string) error {
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, barAnnotation, token)
	if err := p.client.Update(ctx, h); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("barring a claim of host %s: %w", h.Name, err)
	}
	return nil
}

// absencePoll is how often a Machine whose Host is missing asks what the lists
// of its zone say.
const absencePoll = host.GoneAfter

// goneServers proves that the server of a host is gone.
type goneServers struct {
	clock    clock.PassiveClock
	absences *memo.Memo[client.ObjectKey, machine.Absence]
	lacks    func(zone, serverID string) bool
	secrets  bootstrapsecret.Secrets
	zone     func(zone string) (host.ZoneReport, bool)
}

// hostIsLost judges a spec.hostRef whose Host does not exist, from an uncached read: there is
// nothing to hold or to release when the Machine never held the Host, or when the
// server is gone. What is no server's name, such as that of another Machine's order, was
// written by hand: no list will ever show it, nor prove it gone.
func (p *goneServers) hostIsLost(ctx context.Context, v *visit) (bool, error) {
	if !host.NamesServer(v.Machine.Spec.HostRef.Name) {
		return true, nil
	}
	secret, err := p.secrets.Read(ctx, client.ObjectKeyFromObject(v.Machine))
	if err != nil {
		return false, err
	}
	return neverHeld(v.Machine, secret) || p.serverProvedGone(v), nil
}

// serverGone reports that there is no server to release. The phase alone may be
// an old one, and its times are by the clock of the manager that wrote them: the own
// last list must lack the server too. Where it does not, the host is released as any
// other, and its controller ends the release of a server that it finds gone.
func (p *goneServers) serverGone(h *host.Host) bool {
	if h.Status.Phase != infrav1.HostGone || h.Status.MissingSince == nil || p.zone == nil || p.lacks == nil {
		return false
	}
	report, listed := p.zone(h.Spec.Zone)
	return listed && report.Err == nil && !report.Suspicious && p.lacks(h.Spec.Zone, h.Spec.ServerID)
}

// neverHeld reports that by its own records the Machine never held the Host that
// it means: no status speaks of it, and nothing was staged for its claim.
func neverHeld(m *infrav1.ScalewayAppleSiliconMachine, s bootstrapsecret.Content) bool {
	ref := m.Spec.HostRef
	return m.Spec.ProviderID == "" && m.Status.HostName == "" && m.Status.ServerID == "" && s.ClaimToken != ref.ClaimToken
}

// serverProvedGone reports that the vendor no longer has the server of the missing Host.
func (p *goneServers) serverProvedGone(v *visit) bool {
	zone, _ := host.SplitName(v.Machine.Spec.HostRef.Name)
	return p.provedByLists(v, zone, v.Token())
}

// provedByLists reports that the zone was listed well enough since the Machine first
// missed its server, or its own name on it; the token tells what it misses from what
// it missed before.
func (p *goneServers) provedByLists(v *visit, zone, token string) bool {
	if p.zone == nil {
		return false
	}
	v.poll = absencePoll
	report, _ := p.zone(zone)
	p.absences.Change(client.ObjectKeyFromObject(v.Machine), func(a *machine.Absence) { v.proof = a.Note(token, p.clock.Now(), report) })
	return v.proof == machine.ProofGone
}
