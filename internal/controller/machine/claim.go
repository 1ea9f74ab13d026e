package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// reasonClaimed is HostClaimed's reason when it is True.
const reasonClaimed = "Claimed"

// waitPoll is how often a Machine that waits for a host looks why there is none. A
// host that becomes free wakes it; one that is taken, quarantined or gone does not,
// and what the condition says would be an old story. It reads the cache, and asks
// the vendor nothing.
const waitPoll = time.Minute

// Results of claims, as counted.
const (
	claimTaken    = "claimed"
	claimAgain    = "claimed_again"
	claimConflict = "conflict"
	claimLost     = "lost"
	claimNoHost   = "no_host"
)

// claim gives the Machine a host: first the intent is written into its spec, then
// the claim onto the host. The next host that becomes available wakes a Machine
// that waits for one.
func (r *Reconciler) claim(ctx context.Context, v *visit) (ctrl.Result, error) {
	if v.machine.Spec.HostRef == nil {
		intended, err := r.newIntent(ctx, v)
		if err != nil || !intended {
			return ctrl.Result{RequeueAfter: v.poll}, err
		}
	}
	err := r.hold(ctx, v)
	return ctrl.Result{RequeueAfter: v.poll}, err
}

// newIntent writes which host the Machine is to have: its own, where the first
// system gave it one, else one that is chosen.
func (r *Reconciler) newIntent(ctx context.Context, v *visit) (bool, error) {
	if legacy, is := host.LegacyServer(v.machine); is {
		return r.intendLegacy(ctx, v, legacy)
	}
	if waiting := r.unwanted(v); waiting.reason != "" {
		v.claimed = waiting
		return false, nil
	}
	return r.intend(ctx, v)
}

// intend chooses a host and writes the intent, under the Machine's
// resourceVersion, with a token that was never used before.
func (r *Reconciler) intend(ctx context.Context, v *visit) (bool, error) {
	_, err := r.profile(ctx, v.machine)
	if missing, ok := errors.AsType[*unknownProfileError](err); ok {
		v.claimed = no(infrav1.ReasonUnknownProfile, "%s", missing)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// The vendor has the key before a host is chosen: one that is delivered meanwhile
	// must know it. Who then finds nothing to take need not read it again.
	if !r.registered.hasFleet(v.fleetSecret()) {
		if err := r.haveFleetKey(ctx, v); err != nil {
			return false, err
		}
	}
	name, err := r.aim(ctx, v)
	if err != nil || name == "" {
		return false, err
	}
	if err := r.haveFleetKey(ctx, v); err != nil {
		return false, err
	}
	intent := &infrav1.HostReference{Name: name, ClaimToken: uuid.NewString()}
	return true, r.patch(ctx, v, "intent", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = intent })
}

// haveFleetKey is ensureFleetKey for a claim, which waits for it.
func (r *Reconciler) haveFleetKey(ctx context.Context, v *visit) error {
	_, err := r.ensureFleetKey(ctx, v)
	if err != nil {
		v.claimed = no(infrav1.ReasonFleetKeyUnavailable, "%s", err)
	}
	return err
}

// aim names the Host to intend, or says why there is none.
func (r *Reconciler) aim(ctx context.Context, v *visit) (string, error) {
	if ordered(v.machine) {
		return r.aimAtOrder(ctx, v)
	}
	return r.choose(ctx, v)
}

// choose asks package host, and says why there is no host when there is none.
func (r *Reconciler) choose(ctx context.Context, v *visit) (string, error) {
	wish, err := r.wish(v)
	if err != nil {
		v.claimed = no(reasonHostSelector, "spec.hostSelector cannot be used: %s", err)
		return "", nil
	}
	list := &infrav1.ScalewayAppleSiliconHostList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing hosts: %w", err)
	}
	chosen, skipped := host.Choose(wish, list.Items)
	if chosen != nil {
		return chosen.Name, nil
	}
	r.metrics.claim(claimNoHost)
	v.poll = waitPoll
	reason := infrav1.ReasonNoAvailableHost
	if len(list.Items) > 0 && skipped.Only(host.SkipZone) {
		reason = infrav1.ReasonNoHostInFailureDomain
	}
	key := client.ObjectKeyFromObject(v.machine)
	if conditions.GetReason(v.machine, infrav1.HostClaimedCondition) != reason || r.spoken.due(key, r.Clock.Now()) {
		v.claimed = no(reason, "%s", skipped.Message(wish, list.Items))
	}
	return "", nil
}

// hold makes the intended host ours, or finds that it is already, or no longer.
// A claim seen in the cache is believed; that there is none is read uncached.
func (r *Reconciler) hold(ctx context.Context, v *visit) error {
	if host.OrderMeant(v.machine) {
		return r.holdOrder(ctx, v)
	}
	h, verdict, err := r.inspect(ctx, v, r.Client)
	if err != nil {
		return err
	}
	if verdict != host.Held && verdict != host.Releasing {
		if h, verdict, err = r.inspect(ctx, v, r.Reader); err != nil {
			return err
		}
	}
	switch verdict {
	case host.Held:
		return r.keep(ctx, v, h)
	case host.Releasing:
		return r.yield(ctx, v, h)
	case host.Acquire:
		if refusal := r.pools().Refusal(v.machine); refusal != "" {
			v.claimed = no(infrav1.ReasonPoolPrefixNotAllowed, "%s", refusal)
			return r.dropIntent(ctx, v)
		}
		if prefix := r.namedLikeAPool(v.machine); prefix != "" { // the default has changed since
			v.claimed = nameInPool(v.machine, prefix)
			return r.dropIntent(ctx, v)
		}
		return r.acquire(ctx, v, h, verdict)
	case host.ClaimAgain:
		return r.claimAgain(ctx, v, h)
	case host.Recreated:
		return r.takeBack(ctx, v, h)
	case host.Copied:
		r.refuse(v, copied(v.machine, h))
		return nil
	case host.ChooseAgain:
		return r.chooseAgain(ctx, v, "is no longer free")
	case host.Lost:
		return r.lose(ctx, v, h)
	}
	v.claimed = unknown(infrav1.ReasonClaiming, "host %s is not known well enough yet", v.machine.Spec.HostRef.Name)
	if h == nil {
		return r.awaitHost(ctx, v)
	}
	return nil
}

// awaitHost waits for a Host that does not exist, until its server is proved gone.
func (r *Reconciler) awaitHost(ctx context.Context, v *visit) error {
	if v.machine.Spec.ProviderID != "" {
		if r.vanished(v) {
			v.claimed = no(infrav1.ReasonServerGone, "the vendor no longer has the server of host %s", v.machine.Spec.HostRef.Name)
		}
		return nil
	}
	lost, err := r.lost(ctx, v)
	if err != nil || !lost {
		return err
	}
	return r.chooseAgain(ctx, v, "does not exist")
}

// keep holds a host that is ours. One whose server is gone is dropped as long as
// the Machine is not provisioned; after that it is shown, and never swapped.
func (r *Reconciler) keep(ctx context.Context, v *visit, h *host.Host) error {
	v.host, v.claimed = h, yes(reasonClaimed)
	if r.serverGone(h) {
		return r.mourn(ctx, v)
	}
	if h.Spec.ClaimRef.UID == "" && v.machine.UID != "" { // claimed before the field was known
		if err := r.recordUID(ctx, v, h); err != nil {
			return err
		}
	}
	return r.stayHere(ctx, v)
}

// mourn is a live Machine's answer to a server that was deleted at the vendor. The
// claim stays: the host controller removes the Host once no Machine holds it.
func (r *Reconciler) mourn(ctx context.Context, v *visit) error {
	if err := r.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	v.untouchable = true
	v.claimed = no(infrav1.ReasonServerGone, "the vendor no longer has the server of host %s", v.host.Name)
	if v.machine.Spec.ProviderID != "" {
		return nil
	}
	return r.dropHost(ctx, v)
}

// yield answers a release of our claim while the Machine lives. A reinstall gives
// the host back; after any other release it is the pool's or the vendor's, and an
// intent that is left of it, as by a crash in between, is dropped.
func (r *Reconciler) yield(ctx context.Context, v *visit, h *host.Host) error {
	v.host, v.untouchable = h, true
	release := h.Spec.Release
	v.claimed = no(infrav1.ReasonReleasing, "host %s is released: %s, by %s", h.Name, release.Policy, cmp.Or(release.Origin, infrav1.OriginMachine))
	if release.Policy == infrav1.Reinstall || v.machine.Spec.ProviderID != "" {
		return nil
	}
	if release.Origin == infrav1.OriginRecovery {
		v.claimed = no(infrav1.ReasonReturnedToPool, "host %s goes back to the pool to be wiped; another is claimed", h.Name)
	}
	return r.dropHost(ctx, v)
}

// dropHost forgets a host that was held, with all that is staged for it.
func (r *Reconciler) dropHost(ctx context.Context, v *visit) error {
	key := client.ObjectKeyFromObject(v.machine)
	r.pushes.cancel(key)
	if err := r.unstage(ctx, key, v.meant()); err != nil {
		return err
	}
	if err := r.dropIntent(ctx, v); err != nil {
		return err
	}
	r.pushes.forget(key)
	v.host = nil
	return nil
}

// chooseAgain drops an intent that was never fulfilled.
func (r *Reconciler) chooseAgain(ctx context.Context, v *visit, why string) error {
	r.metrics.claim(claimConflict)
	v.claimed = no(infrav1.ReasonClaimConflict, "host %s %s", v.machine.Spec.HostRef.Name, why)
	return r.dropIntent(ctx, v)
}

// inspect reads the intended host and asks package host what the claim needs.
func (r *Reconciler) inspect(ctx context.Context, v *visit, reader client.Reader) (*host.Host, host.Verdict, error) {
	h := &infrav1.ScalewayAppleSiliconHost{}
	name := v.machine.Spec.HostRef.Name
	err := reader.Get(ctx, client.ObjectKey{Name: name}, h)
	if apierrors.IsNotFound(err) {
		return nil, host.Repair(v.machine, nil, r.poolPrefix(v.machine)), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading host %s: %w", name, err)
	}
	r.absences.forget(client.ObjectKeyFromObject(v.machine))
	return h, host.Repair(v.machine, h, r.poolPrefix(v.machine)), nil
}

// acquire writes the claim onto the host, under the resourceVersion of the read
// that found it free, if the intent still stands after that read. A write that
// fails says nothing for certain: another manager may have claimed the host for
// this very intent. So the intent stays, and the next read decides.
func (r *Reconciler) acquire(ctx context.Context, v *visit, h *host.Host, verdict host.Verdict) error {
	again := verdict == host.ClaimAgain
	if err := r.confirmIntent(ctx, v, again); err != nil {
		return err
	}
	if err := r.writeClaim(ctx, v, h, again); err != nil {
		if apierrors.IsConflict(err) {
			r.metrics.claim(claimConflict)
			v.claimed = no(infrav1.ReasonClaimConflict, "host %s changed while it was being claimed", h.Name)
			if again {
				v.claimed = unknown(infrav1.ReasonClaiming, "host %s changed while it was being claimed again", h.Name)
			}
		}
		return fmt.Errorf("claiming host %s: %w", h.Name, err)
	}
	result := claimTaken
	if again {
		result = claimAgain
	}
	r.metrics.claim(result)
	v.host, v.claimed = h, yes(reasonClaimed)
	if host.TakesOver(v.machine) && v.machine.DeletionTimestamp.IsZero() {
		r.tellLegacy(v, "host "+h.Name+" is claimed as it stands: nothing is wiped or rebooted, and its guests run on")
	}
	if again {
		ctrl.LoggerFrom(ctx).Info("Host claimed again", "host", h.Name, "serverID", h.Spec.ServerID)
		// The lost Host took along what its token was bound to: the Mac needs another.
		return r.dropToken(ctx, client.ObjectKeyFromObject(v.machine), claimOn{})
	}
	return nil
}

// confirmIntent reads the Machine uncached: from a stale copy a host could be
// claimed with a token that was dropped, and would belong to nobody. A Machine
// that is being deleted gets back what is its own, and nothing new.
func (r *Reconciler) confirmIntent(ctx context.Context, v *visit, again bool) error {
	fresh := &infrav1.ScalewayAppleSiliconMachine{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(v.machine), fresh); err != nil {
		return fmt.Errorf("confirming the intent: %w", err)
	}
	switch {
	case fresh.UID != v.machine.UID, fresh.Spec.HostRef == nil, *fresh.Spec.HostRef != *v.machine.Spec.HostRef:
		return errStale
	case !again && !fresh.DeletionTimestamp.IsZero():
		return errStale
	}
	return nil
}

// errStale: the Machine has changed since it was read; look again.
var errStale = errors.New("the Machine has changed since it was read")

// writeClaim is the compare-and-set on the host. Update carries the
// resourceVersion that was read; a patch without it would overwrite the claim of
// another Machine.
func (r *Reconciler) writeClaim(ctx context.Context, v *visit, h *host.Host, again bool) error {
	host.Claim(h, *v.claimRef(), r.Clock.Now())
	if again {
		s, err := r.readStaged(ctx, client.ObjectKeyFromObject(v.machine))
		if err != nil {
			return err
		}
		restore(&h.Spec.Record, s, v.token())
		h.Spec.Record.Bootstrap.RebootIssued = v.machine.Status.Bootstrap.RebootIssued
		h.Spec.Record.Ordered = h.Spec.Record.Ordered || ordered(v.machine)
		if ordered(v.machine) && h.Spec.Record.OrderedFor == "" {
			h.Spec.Record.OrderedFor = orderedFor(v.machine)
		}
	}
	return r.Client.Update(ctx, h)
}

// dropIntent forgets the chosen host; the write wakes the Machine to choose
// again, with another token. The Mac may have made its Node already, or may be
// about to: what it joins with ends and the Node goes first, for the next Mac
// needs its name.
func (r *Reconciler) dropIntent(ctx context.Context, v *visit) error {
	if err := r.dropToken(ctx, client.ObjectKeyFromObject(v.machine), v.meant()); err != nil {
		return err
	}
	if err := r.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	return r.patch(ctx, v, "dropped intent", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = nil })
}

// patch writes a change of the Machine under its resourceVersion. A write that
// fails is undone in memory: the status must not follow from what is not there.
func (r *Reconciler) patch(ctx context.Context, v *visit, what string, change func(*infrav1.ScalewayAppleSiliconMachine)) error {
	base := v.machine.DeepCopy()
	change(v.machine)
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, v.machine, patch); err != nil {
		v.machine = base
		return fmt.Errorf("recording the %s: %w", what, err)
	}
	return nil
}
