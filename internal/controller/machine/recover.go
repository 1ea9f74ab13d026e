package machine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/requeue"
)

// reasonLimit is how long a failure's reason may be on a host.
const reasonLimit = 128

// recovery answers failed bootstraps: by a reboot, by another host, by a wipe.
type recovery struct {
	clock        clock.PassiveClock
	claims       *claims
	disruption   *disruption
	hosts        hostclaim.Hosts
	maxAttempts  int
	metrics      *metrics
	nodes        *nodes
	pools        host.Pools
	rebootAfter  int
	recoverAfter time.Duration
	releases     *releases
}

// recoverFrom does what host.NextRecovery asks for after a failure that was counted. Once the
// Machine is provisioned its host is its own, and health checks take over; one that
// is on its way out lets its host go soon enough.
func (p *recovery) recoverFrom(ctx context.Context, v *visit, failure *push.Failure) error {
	if v.Machine.Spec.ProviderID != "" || !v.MayDisturb() {
		return nil
	}
	in := host.RecoveryInput{
		Class: host.FailureClass(failure.Class), RebootAfter: p.rebootAfter, MaxAttempts: p.maxAttempts,
		PoolPrefix: p.pools.Prefix(v.Machine), TakeOver: host.TakesOver(v.Machine), ReadyNode: v.ReadyNode(), LeastTime: p.recoverAfter, Now: p.clock.Now(),
	}
	next, why := host.NextRecovery(v.Host, in)
	switch next {
	case host.RecoverReboot, host.RecoverReturn, host.RecoverReinstall:
		return p.startDisruption(ctx, v, in, next, failure, why)
	case host.RecoverStay:
		v.bootstrapped = machine.False(infrav1.ReasonBootstrapExhausted, "%s; last failure: %s", why, v.bootstrapped.Message)
	}
	return nil
}

// startDisruption begins a tier that interrupts or destroys: a reboot counts as a wipe
// does. What is held back is looked at again after the next failure, as long as those
// go on.
func (p *recovery) startDisruption(ctx context.Context, v *visit, in host.RecoveryInput, next host.Recovery, failure *push.Failure, why string) error {
	because := why + "; last failure: " + v.bootstrapped.Message
	block, err := p.disruption.guarded(ctx, v, func() error {
		if next == host.RecoverReboot {
			return p.askForReboot(ctx, v, in, because)
		}
		return p.releaseUnhealthyHost(ctx, v, in, next, failure, because)
	})
	if block.Reason != "" {
		v.bootstrapped = heldRecovery(v.bootstrapped, next, block, why)
	}
	return err
}

// heldRecovery is what the failure's finding becomes when its answer is held back.
// Without a reboot recovery is not exhausted yet: the failure itself stays told.
func heldRecovery(failed machine.Finding, next host.Recovery, hold host.Block, why string) machine.Finding {
	if next == host.RecoverReboot {
		return machine.False(failed.Reason, "%s; the reboot is held back (%s): %s", failed.Message, hold.Reason, hold.Message)
	}
	return machine.False(infrav1.ReasonBootstrapExhausted, "%s; %s; last failure: %s", why, hold.HoldsWipe(), failed.Message)
}

// askForReboot records the one reboot of the claim; the host controller makes it.
func (p *recovery) askForReboot(ctx context.Context, v *visit, in host.RecoveryInput, why string) error {
	asked := false
	h, err := p.hosts.Amend(ctx, v.claimOnHost(), func(h *host.Host) bool {
		next, _ := host.NextRecovery(h, in)
		if asked = next == host.RecoverReboot && h.Spec.Release == nil && !host.ChangedByOther(h); asked {
			host.AskForReboot(h, v.Token(), "bootstrap: "+why, in.Now)
		}
		return asked
	})
	if err != nil {
		return err
	}
	v.Host = h
	if asked {
		ctrl.LoggerFrom(ctx).Info("Reboot asked for", "host", h.Name, "serverID", h.Spec.ServerID, "why", why)
		v.bootstrapped = machine.False(infrav1.ReasonRebootingForRecovery, "host %s is to be rebooted: %s", h.Name, why)
	}
	return nil
}

// withdrawReboot takes the claim's one reboot back before the Machine is provisioned, where
// the vendor has not taken it: the Mac came up without it, and is about to run guests.
func (p *recovery) withdrawReboot(ctx context.Context, v *visit) error {
	h, err := p.hosts.Amend(ctx, v.claimOnHost(), host.WithdrawReboot)
	if err != nil {
		return err
	}
	v.Host = h
	return nil
}

// releaseUnhealthyHost releases the host so that it is wiped: back to the pool, or for the same
// Machine. spec.hostRef goes only after the release is durable: an error keeps the
// claim, and no other host is taken while this one is still ours.
func (p *recovery) releaseUnhealthyHost(ctx context.Context, v *visit, in host.RecoveryInput, next host.Recovery, failure *push.Failure, why string) error {
	if err := p.nodes.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	given := false
	h, err := p.hosts.Amend(ctx, v.claimOnHost(), func(h *host.Host) bool {
		again, _ := host.NextRecovery(h, in)
		if given = again == next && h.Spec.Release == nil && !host.ChangedByOther(h); given {
			host.ReleaseUnhealthy(h, p.recoveryRelease(v, next), failureReason(failure), in.Now)
			controllerutil.AddFinalizer(h, infrav1.HostFinalizer)
		}
		return given
	})
	if err != nil || !given {
		return err
	}
	v.Host = h
	p.metrics.recovery(next)
	ctrl.LoggerFrom(ctx).Info("Host given up", "host", h.Name, "serverID", h.Spec.ServerID, "recovery", next, "why", why)
	return p.afterUnhealthyRelease(ctx, v, next, why)
}

func (p *recovery) afterUnhealthyRelease(ctx context.Context, v *visit, next host.Recovery, why string) error {
	name := v.Host.Name
	v.untouchable = true
	if next == host.RecoverReinstall {
		v.bootstrapped = machine.False(infrav1.ReasonReinstalling, "host %s is wiped for this Machine: %s", name, why)
		return p.claims.clearBootstrap(ctx, v)
	}
	v.claimed = machine.False(infrav1.ReasonReturnedToPool, "host %s goes back to the pool to be wiped; another is claimed", name)
	v.bootstrapped = machine.False(infrav1.ReasonReturnedToPool, "host %s goes back to the pool: %s", name, why)
	return p.claims.clearHost(ctx, v)
}

func (p *recovery) recoveryRelease(v *visit, next host.Recovery) infrav1.Release {
	release := *p.releases.newRelease(v, infrav1.Recycle)
	if next == host.RecoverReinstall {
		release.Policy = infrav1.Reinstall
	}
	return release
}

// failureReason is what the host remembers of a failure.
func failureReason(failure *push.Failure) string {
	reason := cmp.Or(failure.Reason, infrav1.ReasonBootstrapFailed+" at "+failure.Step)
	return reason[:min(len(reason), reasonLimit)]
}

// disruption says whether a Mac may be rebooted or wiped now: the storm guard, and the
// Machine as it is.
type disruption struct {
	clock    clock.PassiveClock
	reader   client.Reader
	machines *machines
	// counting is held while a disruption counts what others disturb and adds itself: so
	// those of this controller count one another. Nobody waits for it. Remediations, the
	// sweep and the wipes of unseen hosts come one by one, and count what they see: two kinds
	// that begin at the same moment may miss each other.
	counting *sync.Mutex
	zone     func(zone string) (host.ZoneReport, bool)
}

// guarded begins what interrupts or destroys, if the storm guard allows it and the
// Machine is as it was when it was judged. A block says why it is held back.
func (p *disruption) guarded(ctx context.Context, v *visit, begin func() error) (host.Block, error) {
	if !p.counting.TryLock() {
		return host.Block{}, requeue.ErrStale // another one is counting; look again when it has added itself
	}
	defer p.counting.Unlock()
	block, err := p.held(ctx, v.Host)
	if err != nil || block.Reason != "" {
		return block, err
	}
	if err := p.confirm(ctx, v); err != nil {
		return host.Block{}, err
	}
	return host.Block{}, begin()
}

// held asks the storm guard, from an uncached list. The host's own reboot does
// not hold up its wipe: that disturbs no other.
func (p *disruption) held(ctx context.Context, h *host.Host) (host.Block, error) {
	list := &infrav1.ScalewayAppleSiliconHostList{}
	if err := p.reader.List(ctx, list); err != nil {
		return host.Block{}, fmt.Errorf("listing hosts: %w", err)
	}
	report, listed := host.ZoneReport{}, false
	if p.zone != nil {
		report, listed = p.zone(h.Spec.Zone)
	}
	return host.DestructionBlocked(h.Spec.Zone, host.WithoutSelf(list.Items, h.Name), report, listed, p.clock.Now()), nil
}

// confirm reads Machine and Cluster uncached: the Machine lives, still means
// this host, is as far with it as it was when it was judged, and nobody has paused or
// is moving it.
func (p *disruption) confirm(ctx context.Context, v *visit) error {
	fresh := &infrav1.ScalewayAppleSiliconMachine{}
	if err := p.reader.Get(ctx, client.ObjectKeyFromObject(v.Machine), fresh); err != nil {
		return fmt.Errorf("confirming a recovery: %w", err)
	}
	if !v.SameForDisruption(fresh) {
		return requeue.ErrStale
	}
	isPaused, err := p.machines.clusterPaused(ctx, v)
	if err != nil {
		return err
	}
	if isPaused || v.Cluster == nil || !v.Cluster.DeletionTimestamp.IsZero() {
		return requeue.ErrStale
	}
	return nil
}
