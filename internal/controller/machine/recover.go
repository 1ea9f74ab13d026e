package machine

import (
	"context"
	"fmt"

	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// reasonLimit is how long a failure's reason may be on a host.
const reasonLimit = 128

// climb does what the ladder asks for after a failure that was counted. Once the
// Machine is provisioned its host is its own, and health checks take over; one that
// is on its way out lets its host go soon enough.
func (r *Reconciler) climb(ctx context.Context, v *visit, failure *Failure) error {
	if v.machine.Spec.ProviderID != "" || v.leaving() || v.cluster == nil {
		return nil
	}
	in := host.RecoveryInput{
		Class: host.FailureClass(failure.Class), RebootAfter: r.RebootAfter, MaxAttempts: r.MaxAttempts,
		PoolPrefix: r.poolPrefix(v.machine), TakeOver: host.TakesOver(v.machine), LeastTime: r.RecoverAfter, Now: r.Clock.Now(),
	}
	next, why := host.NextRecovery(v.host, in)
	switch next {
	case host.RecoverReboot, host.RecoverReturn, host.RecoverReinstall:
		return r.disturb(ctx, v, in, next, failure, why)
	case host.RecoverStay:
		v.bootstrapped = no(infrav1.ReasonBootstrapExhausted, "%s; last failure: %s", why, v.bootstrapped.message)
	}
	return nil
}

// disturb begins a tier that interrupts or destroys, if the storm guard allows it:
// a reboot counts as a wipe does. What is held back is looked at again after the
// next failure, as long as those go on. The lock makes recoveries of this manager
// count one another; nobody waits for it.
func (r *Reconciler) disturb(ctx context.Context, v *visit, in host.RecoveryInput, next host.Recovery, failure *Failure, why string) error {
	if !r.storm.TryLock() {
		return errStale // another one is counting; look again when it has added itself
	}
	defer r.storm.Unlock()
	hold, err := r.heldBack(ctx, v.host)
	if err != nil {
		return err
	}
	if hold.Reason != "" {
		v.bootstrapped = heldRecovery(v.bootstrapped, next, hold, why)
		return nil
	}
	if err := r.confirmTrouble(ctx, v); err != nil {
		return err
	}
	if next == host.RecoverReboot {
		return r.askForReboot(ctx, v, in, why)
	}
	return r.giveUp(ctx, v, in, next, failure, why+"; last failure: "+v.bootstrapped.message)
}

// heldRecovery is what the failure's finding becomes when its answer is held back.
// Without a reboot the ladder is not exhausted yet: the failure itself stays told.
func heldRecovery(failed finding, next host.Recovery, hold host.Hold, why string) finding {
	if next == host.RecoverReboot {
		return no(failed.reason, "%s; the reboot is held back (%s): %s", failed.message, hold.Reason, hold.Message)
	}
	return no(infrav1.ReasonBootstrapExhausted, "%s; the wipe is held back (%s): %s; last failure: %s", why, hold.Reason, hold.Message, failed.message)
}

// askForReboot records the one reboot of the claim; the host controller makes it.
func (r *Reconciler) askForReboot(ctx context.Context, v *visit, in host.RecoveryInput, why string) error {
	asked := false
	h, err := r.amendHost(ctx, v.host.Name, host.ClaimOf(v.machine), func(h *host.Host) bool {
		next, _ := host.NextRecovery(h, in)
		if asked = next == host.RecoverReboot && h.Spec.Release == nil && !host.ChangedByOther(h); asked {
			host.AskForReboot(h, v.token(), "bootstrap: "+why, in.Now)
		}
		return asked
	})
	if err != nil {
		return err
	}
	v.host = h
	if asked {
		ctrl.LoggerFrom(ctx).Info("Reboot asked for", "host", h.Name, "serverID", h.Spec.ServerID, "why", why)
		v.bootstrapped = no(infrav1.ReasonRebootingForRecovery, "host %s is to be rebooted: %s", h.Name, why)
	}
	return nil
}

// giveUp releases the host so that it is wiped: back to the pool, or for the same
// Machine. The intent goes only after the release is durable: an error keeps the
// claim, and no other host is taken while this one is still ours.
func (r *Reconciler) giveUp(ctx context.Context, v *visit, in host.RecoveryInput, next host.Recovery, failure *Failure, why string) error {
	if err := r.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	given := false
	h, err := r.amendHost(ctx, v.host.Name, host.ClaimOf(v.machine), func(h *host.Host) bool {
		again, _ := host.NextRecovery(h, in)
		if given = again == next && h.Spec.Release == nil && !host.ChangedByOther(h); given {
			host.GiveUp(h, r.recoveryRelease(v, next), failureReason(failure), in.Now)
			controllerutil.AddFinalizer(h, infrav1.HostFinalizer)
		}
		return given
	})
	if err != nil || !given {
		return err
	}
	v.host = h
	r.metrics.recovery(next)
	ctrl.LoggerFrom(ctx).Info("Host given up", "host", h.Name, "serverID", h.Spec.ServerID, "recovery", next, "why", why)
	return r.afterGiveUp(ctx, v, next, why)
}

func (r *Reconciler) afterGiveUp(ctx context.Context, v *visit, next host.Recovery, why string) error {
	name := v.host.Name
	v.untouchable = true
	if next == host.RecoverReinstall {
		v.bootstrapped = no(infrav1.ReasonReinstalling, "host %s is wiped for this Machine: %s", name, why)
		return r.unstage(ctx, client.ObjectKeyFromObject(v.machine), v.meant())
	}
	v.claimed = no(infrav1.ReasonReturnedToPool, "host %s goes back to the pool to be wiped; another is claimed", name)
	v.bootstrapped = no(infrav1.ReasonReturnedToPool, "host %s goes back to the pool: %s", name, why)
	return r.dropHost(ctx, v)
}

func (r *Reconciler) recoveryRelease(v *visit, next host.Recovery) infrav1.Release {
	release := *r.newRelease(v, infrav1.Recycle)
	if next == host.RecoverReinstall {
		release.Policy = infrav1.Reinstall
	}
	return release
}

// heldBack asks the storm guard, from an uncached list. The host's own reboot does
// not hold up its wipe: that disturbs no other.
func (r *Reconciler) heldBack(ctx context.Context, h *host.Host) (host.Hold, error) {
	list := &infrav1.ScalewayAppleSiliconHostList{}
	if err := r.Reader.List(ctx, list); err != nil {
		return host.Hold{}, fmt.Errorf("listing hosts: %w", err)
	}
	report, listed := host.ZoneReport{}, false
	if r.Zone != nil {
		report, listed = r.Zone(h.Spec.Zone)
	}
	return host.DestructionHeld(h.Spec.Zone, host.WithoutSelf(list.Items, h.Name), report, listed, r.Clock.Now()), nil
}

// confirmTrouble reads Machine and Cluster uncached: the Machine lives, still means
// this host, is as far with it as it was when it was judged, and nobody has paused or
// is moving it.
func (r *Reconciler) confirmTrouble(ctx context.Context, v *visit) error {
	fresh := &infrav1.ScalewayAppleSiliconMachine{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(v.machine), fresh); err != nil {
		return fmt.Errorf("confirming a recovery: %w", err)
	}
	ref := fresh.Spec.HostRef
	switch {
	case fresh.UID != v.machine.UID, ref == nil, ref.ClaimToken != v.token():
		return errStale
	case !fresh.DeletionTimestamp.IsZero(), fresh.Spec.ProviderID != v.machine.Spec.ProviderID, moving(fresh), annotations.HasPaused(fresh):
		return errStale
	}
	isPaused, err := r.held(ctx, v)
	if err != nil {
		return err
	}
	if isPaused || v.cluster == nil || !v.cluster.DeletionTimestamp.IsZero() {
		return errStale
	}
	return nil
}

// failureReason is what the host remembers of a failure.
func failureReason(failure *Failure) string {
	reason := failure.Reason
	if reason == "" {
		reason = infrav1.ReasonBootstrapFailed + " at " + failure.Step
	}
	return reason[:min(len(reason), reasonLimit)]
}
