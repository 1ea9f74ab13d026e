package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/fleetsecret"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/memo"
	"github.com/macfleet/macfleet/internal/order"
)

// claimPhase gives the Machine a host.
type claimPhase struct {
	offer        machine.Offer
	client       client.Client
	clock        clock.PassiveClock
	reader       client.Reader
	checks       *job.Pool
	claims       *claims
	fleetKeys    *fleetKeys
	gone         *goneServers
	hosts        hostclaim.Hosts
	keys         *fleetsecret.Store
	machines     *machines
	metrics      *metrics
	nodes        *nodes
	orders       *order.Placer
	pushes       *job.Pool
	reservations *reservations
	rights       *rights
	waitMessages *memo.Memo[client.ObjectKey, time.Time]
}

// run gives the Machine a host: first the chosen host is written into its spec, then
// the claim onto the host. The next host that becomes available wakes a Machine
// that waits for one.
func (p *claimPhase) run(ctx context.Context, v *visit) (ctrl.Result, error) {
	if v.Machine.Spec.HostRef == nil {
		elsewhere, err := p.machines.elsewhere(ctx, v, p.machines.client)
		if err != nil || elsewhere.Reason != "" {
			v.claimed = elsewhere
			return ctrl.Result{RequeueAfter: elsewherePoll}, err
		}
		chosen, err := p.setHostRef(ctx, v)
		if err != nil || !chosen {
			return ctrl.Result{RequeueAfter: v.poll}, err
		}
	}
	p.waitMessages.Forget(client.ObjectKeyFromObject(v.Machine))
	err := p.reconcileClaim(ctx, v)
	return ctrl.Result{RequeueAfter: v.poll}, err
}

// setHostRef writes which host the Machine is to have: its own, where the first
// system gave it one, else one that is chosen.
func (p *claimPhase) setHostRef(ctx context.Context, v *visit) (bool, error) {
	if legacy, is := host.LegacyServer(v.Machine); is {
		return p.setLegacyHostRef(ctx, v, legacy)
	}
	if waiting := machine.Claimable(v.Snapshot, p.offer.Pools); waiting.Reason != "" {
		v.claimed = waiting
		return false, nil
	}
	return p.setPoolHostRef(ctx, v)
}

// setPoolHostRef chooses a host and writes spec.hostRef, under the Machine's
// resourceVersion, with a token that was never used before.
func (p *claimPhase) setPoolHostRef(ctx context.Context, v *visit) (bool, error) {
	_, err := p.machines.profile(ctx, v.Machine)
	if missing, ok := errors.AsType[*unknownProfileError](err); ok {
		v.claimed = machine.False(infrav1.ReasonUnknownProfile, "%s", missing)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// The vendor has the key before a host is chosen: one that is delivered meanwhile
	// must know it. Hosts of a pool were installed before, and the push reads the key.
	if !p.keys.Registered(v.fleetOf()) {
		if err := p.requireFleetKey(ctx, v); err != nil {
			return false, err
		}
	}
	name, err := p.selectHost(ctx, v)
	if err != nil || name == "" {
		return false, err
	}
	if machine.OrdersServer(v.Machine) {
		if err := p.requireFleetKey(ctx, v); err != nil {
			return false, err
		}
	}
	ref := &infrav1.HostReference{Name: name, ClaimToken: uuid.NewString()}
	return true, p.machines.patch(ctx, v, "chosen host", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = ref })
}

// requireFleetKey is ensureSSHKey for a claim, which waits for it.
func (p *claimPhase) requireFleetKey(ctx context.Context, v *visit) error {
	_, err := p.fleetKeys.ensureSSHKey(ctx, v)
	if err != nil {
		v.claimed = machine.False(infrav1.ReasonFleetKeyUnavailable, "%s", err)
	}
	return err
}

// selectHost names the Host to claim, or says why there is none.
func (p *claimPhase) selectHost(ctx context.Context, v *visit) (string, error) {
	if machine.OrdersServer(v.Machine) {
		return p.selectOrder(ctx, v)
	}
	return p.selectPoolHost(ctx, v)
}

// selectPoolHost asks package host, and says why there is no host when there is none.
func (p *claimPhase) selectPoolHost(ctx context.Context, v *visit) (string, error) {
	wish, err := p.offer.Requirements(v.Snapshot, p.clock.Now())
	if err != nil {
		v.claimed = machine.False(machine.ReasonHostSelector, "spec.hostSelector cannot be used: %s", err)
		return "", nil
	}
	list := &infrav1.ScalewayAppleSiliconHostList{}
	if err := p.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing hosts: %w", err)
	}
	key := client.ObjectKeyFromObject(v.Machine)
	chosen, skipped := p.reservations.choose(wish, list.Items, key)
	if chosen != nil {
		return chosen.Name, nil
	}
	p.metrics.claim(claimNoHost)
	due, again := p.waitMessageDue(key)
	v.poll = again
	if skipped[host.SkipReserved] > 0 {
		v.poll = reserved // nobody wakes us when that claim comes to nothing
	}
	reason := infrav1.ReasonNoAvailableHost
	if len(list.Items) > 0 && skipped.Only(host.SkipZone) {
		reason = infrav1.ReasonNoHostInFailureDomain
	}
	if conditions.GetReason(v.Machine, infrav1.HostClaimedCondition) != reason || due {
		v.claimed = machine.False(reason, "%s", skipped.Message(wish, list.Items))
	}
	return "", nil
}

// reconcileClaim makes the chosen host ours, or finds that it is already, or no longer.
// A claim seen in the cache is believed, and a host that is free there is claimed once
// under the resourceVersion it has there; anything else is read uncached.
func (p *claimPhase) reconcileClaim(ctx context.Context, v *visit) error {
	if host.OrderMeant(v.Machine) {
		return p.reconcileOrder(ctx, v)
	}
	h, verdict, err := p.claims.judgeClaim(ctx, v, p.client)
	if err != nil {
		return err
	}
	believed := verdict == host.Held || verdict == host.Releasing
	if !believed && (verdict != host.Acquire || !p.reservations.firstTry(client.ObjectKeyFromObject(v.Machine), v.Token())) {
		if h, verdict, err = p.claims.judgeClaim(ctx, v, p.reader); err != nil {
			return err
		}
	}
	switch verdict {
	case host.Held:
		return p.confirmClaim(ctx, v, h)
	case host.Releasing:
		return p.handleReleasing(ctx, v, h)
	case host.Acquire:
		// A person may have written spec.hostRef, of an object that no Machine owns.
		if waits(v) {
			return nil
		}
		if refusal := p.offer.Pools.Refusal(v.Machine); refusal != "" {
			v.claimed = machine.False(infrav1.ReasonPoolPrefixNotAllowed, "%s", refusal)
			return p.claims.clearHostRef(ctx, v)
		}
		if prefix := machine.NamedLikeAPool(v.Machine, p.offer.Pools); prefix != "" { // the default has changed since
			v.claimed = machine.NameInPool(v.Machine, prefix)
			return p.claims.clearHostRef(ctx, v)
		}
		return p.claims.acquire(ctx, v, h, verdict)
	case host.ClaimAgain:
		return p.claimAgain(ctx, v, h)
	case host.Recreated:
		return p.reclaimRecreated(ctx, v, h)
	case host.Copied:
		p.refuse(v, machine.Copied(v.Machine, h))
		return nil
	case host.ChooseAgain:
		return p.chooseAgain(ctx, v, "is no longer free")
	case host.Lost:
		return p.handleClaimLost(ctx, v, h)
	}
	v.claimed = machine.Unknown(infrav1.ReasonClaiming, "host %s is not known well enough yet", v.Machine.Spec.HostRef.Name)
	if h == nil {
		return p.awaitHost(ctx, v)
	}
	return nil
}

// waits reports that no host can be claimed or ordered for the Machine yet, and sets the
// condition HostClaimed to why.
func waits(v *visit) bool {
	waiting := machine.NotReady(v.Snapshot)
	if waiting.Reason != "" {
		v.claimed = waiting
	}
	return waiting.Reason != ""
}

// awaitHost waits for a Host that does not exist, until its server is proved gone.
func (p *claimPhase) awaitHost(ctx context.Context, v *visit) error {
	if v.Machine.Spec.ProviderID != "" {
		if p.gone.serverProvedGone(v) {
			v.claimed = machine.False(infrav1.ReasonServerGone, "the vendor no longer has the server of host %s", v.Machine.Spec.HostRef.Name)
		}
		return nil
	}
	lost, err := p.gone.hostIsLost(ctx, v)
	if err != nil || !lost {
		return err
	}
	return p.chooseAgain(ctx, v, "does not exist")
}

// confirmClaim holds a host that is ours. One whose server is gone is dropped as long as
// the Machine is not provisioned; after that it is shown, and never swapped.
func (p *claimPhase) confirmClaim(ctx context.Context, v *visit, h *host.Host) error {
	v.Host, v.claimed = h, machine.True(machine.ReasonClaimed)
	if p.gone.serverGone(h) {
		return p.handleServerGone(ctx, v)
	}
	if h.Spec.ClaimRef.UID == "" && v.Machine.UID != "" { // claimed before the field was known
		if err := p.claims.recordUID(ctx, v, h); err != nil {
			return err
		}
	}
	return p.cancelMove(ctx, v)
}

// handleServerGone is a live Machine's answer to a server that was deleted at the vendor. The
// claim stays: the host controller removes the Host once no Machine holds it.
func (p *claimPhase) handleServerGone(ctx context.Context, v *visit) error {
	if err := p.nodes.deleteLostNode(ctx, v); err != nil {
		return err
	}
	v.untouchable = true
	v.claimed = machine.False(infrav1.ReasonServerGone, "the vendor no longer has the server of host %s", v.Host.Name)
	if v.Machine.Spec.ProviderID != "" {
		return nil
	}
	return p.claims.clearHost(ctx, v)
}

// handleReleasing answers a release of our claim while the Machine lives. A reinstall gives
// the host back; after any other release it is the pool's or the vendor's, and an
// spec.hostRef that is left of it, as by a crash in between, is dropped.
func (p *claimPhase) handleReleasing(ctx context.Context, v *visit, h *host.Host) error {
	v.Host, v.untouchable = h, true
	release := h.Spec.Release
	v.claimed = machine.False(infrav1.ReasonReleasing, "host %s is released: %s, by %s", h.Name, release.Policy, cmp.Or(release.Origin, infrav1.OriginMachine))
	if release.Policy == infrav1.Reinstall || v.Machine.Spec.ProviderID != "" {
		return nil
	}
	if release.Origin == infrav1.OriginRecovery {
		v.claimed = machine.False(infrav1.ReasonReturnedToPool, "host %s goes back to the pool to be wiped; another is claimed", h.Name)
	}
	return p.claims.clearHost(ctx, v)
}

// chooseAgain drops the choice of a host that was never claimed.
func (p *claimPhase) chooseAgain(ctx context.Context, v *visit, why string) error {
	p.metrics.claim(claimConflict)
	v.claimed = machine.False(infrav1.ReasonClaimConflict, "host %s %s", v.Machine.Spec.HostRef.Name, why)
	return p.claims.clearHostRef(ctx, v)
}

// What a waiting Machine says is ten seconds old at most where a few wait, and a person
// looks; a hundred say it each minute. However busy the pool is, all together write no more
// than two messages a second, up to the hundred.
const (
	leastWaitPoll = 10 * time.Second
	waitShare     = 600 * time.Millisecond
)

// waitPeriod is how often a waiting Machine may say anew why it waits.
func (p *claimPhase) waitPeriod() time.Duration {
	return min(max(time.Duration(p.waitMessages.Len())*waitShare, leastWaitPoll), waitPoll)
}

// waitMessageDue reports that a waiting Machine may say anew why it waits, and notes
// that it does; again is until when it may the next time. The counts in that message change
// with every host, and no change of a host that stays taken wakes a Machine; written each
// time, a hundred Machines would keep the API server busy with words.
func (p *claimPhase) waitMessageDue(key client.ObjectKey) (due bool, again time.Duration) {
	now, period := p.clock.Now(), p.waitPeriod()
	p.waitMessages.Change(key, func(last *time.Time) {
		if due = last.IsZero() || !now.Before(last.Add(period)); due {
			*last = now
		}
		again = min(last.Add(period).Sub(now), period)
	})
	return due, again
}

// claimAgain claims a host that was lost and found again, if uncached reads prove
// that it was this Machine's.
func (p *claimPhase) claimAgain(ctx context.Context, v *visit, h *host.Host) error {
	refusal, err := p.rights.mayClaimAgain(ctx, v, h)
	if err != nil {
		return err
	}
	if refusal.Reason != "" {
		v.poll = waitPoll
		p.refuse(v, machine.False(refusal.Reason, "%s", refusal.Message))
		return nil
	}
	return p.claims.acquire(ctx, v, h, host.ClaimAgain)
}

// reclaimRecreated records that the claim is this object's: the one that made it, of the
// same namespace, name and token, is gone. A backup was restored, or the Cluster
// was moved away and back.
func (p *claimPhase) reclaimRecreated(ctx context.Context, v *visit, h *host.Host) error {
	missing, err := p.machines.missingOwner(ctx, v.Machine)
	if err != nil {
		return err
	}
	if missing != "" {
		v.poll = waitPoll
		p.refuse(v, machine.False(infrav1.ReasonClaimConflict, "%s", host.Orphaned(h.Name, missing)))
		return nil
	}
	if err := p.claims.recordUID(ctx, v, h); err != nil {
		return err
	}
	if h.Spec.Order != nil {
		v.claimed = orderProgress(h)
		return nil
	}
	if h.Spec.Release != nil {
		return p.handleReleasing(ctx, v, h)
	}
	return p.confirmClaim(ctx, v, h)
}

// refuse says why the Machine has no right to the host that it means; as an event
// too, once.
func (p *claimPhase) refuse(v *visit, why machine.Finding) {
	v.claimed = why
	if c := conditions.Get(v.Machine, infrav1.HostClaimedCondition); c == nil || c.Message != why.Message {
		p.machines.event(v.Machine, corev1.EventTypeWarning, why.Reason, why.Message)
	}
}

// handleClaimLost gives up a host that is not the Machine's. One that was provisioned keeps
// showing its loss: its Mac cannot be swapped any more. The Node that is left of it
// goes, so that health checks find it gone.
func (p *claimPhase) handleClaimLost(ctx context.Context, v *visit, h *host.Host) error {
	v.claimed = machine.False(infrav1.ReasonClaimLost, "host %s is not this Machine's: %s", h.Name, machine.OtherOwner(h, v.Machine))
	key := client.ObjectKeyFromObject(v.Machine)
	p.pushes.Cancel(key) // the Mac is another's
	p.checks.Cancel(key)
	if v.Machine.Spec.ProviderID != "" {
		if host.LeftBehind(h, v.Machine) {
			return p.nodes.deleteOwnNode(ctx, v)
		}
		return nil
	}
	if host.TakesOver(v.Machine) {
		return nil // it never gets another host
	}
	if host.HoldsClaim(h, v.Machine) {
		if err := p.hosts.End(ctx, hostclaim.RefOf(v.Machine), p.clock.Now()); err != nil {
			return err
		}
	}
	return p.claims.clearHostRef(ctx, v)
}
