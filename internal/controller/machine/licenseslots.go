package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/workload"
)

// slotPoll is how often a Mac that waits to be rebooted is looked at: Pods are not
// watched.
const slotPoll = 15 * time.Second

// slotsPhase has a Mac rebooted whose macOS counts guests that are gone.
type slotsPhase struct {
	clock      clock.PassiveClock
	reader     client.Reader
	disruption *disruption
	hosts      hostclaim.Hosts
}

// run has a Mac rebooted that counts macOS guests that are gone, once nobody is
// disturbed by it. The host controller cuts the power, after a look of its own.
func (p *slotsPhase) run(ctx context.Context, v *visit) (ctrl.Result, error) {
	if v.Machine.Spec.ProviderID == "" || v.Host == nil || v.untouchable || v.Node == nil || v.Node.Spec.ProviderID != v.Machine.Spec.ProviderID {
		return ctrl.Result{}, nil
	}
	if leak := host.LeakOf(v.Node, nil); !leak.Leaked {
		if leak.Ready && conditions.IsFalse(v.Machine, infrav1.SlotsHealthyCondition) {
			v.slots = machine.True(infrav1.ReasonSlotsUsable)
		}
		return ctrl.Result{}, nil
	}
	if !v.MayDisturb() {
		return ctrl.Result{}, nil
	}
	leak, err := p.readLeak(ctx, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := p.clock.Now()
	switch next, why := host.NextLeak(v.Host, leak, now); next {
	case host.LeakWait:
		v.slots = machine.False(infrav1.ReasonSlotsLeaked, "macOS on host %s counts guests that are gone: %s", v.Host.Name, why)
	case host.LeakUnderway:
		v.slots = machine.False(infrav1.ReasonRebootingForSlots, "host %s: %s", v.Host.Name, why)
	case host.LeakStays:
		v.slots = machine.False(infrav1.ReasonSlotsStillLeaked, "host %s: %s", v.Host.Name, why)
		if at := host.NextLeakCheck(v.Host, now); !at.IsZero() {
			return after(now, at), nil
		}
	case host.LeakReboot:
		err = p.rebootForSlots(ctx, v, leak)
	}
	return ctrl.Result{RequeueAfter: slotPoll}, err
}

// readLeak reads the Node and its Pods uncached: a Pod that the cache does not know yet
// must not lose its guest. A Node that is not this Mac's tells of no leak.
func (p *slotsPhase) readLeak(ctx context.Context, v *visit) (host.Leak, error) {
	node := &corev1.Node{}
	if err := p.reader.Get(ctx, client.ObjectKeyFromObject(v.Node), node); err != nil {
		return host.Leak{}, fmt.Errorf("reading Node %s: %w", v.Node.Name, err)
	}
	if node.Spec.ProviderID != v.Machine.Spec.ProviderID {
		return host.Leak{}, nil
	}
	pods := &corev1.PodList{}
	if err := p.reader.List(ctx, pods, client.MatchingFields{workload.NodeNameField: node.Name}); err != nil {
		return host.Leak{}, fmt.Errorf("listing the Pods of Node %s: %w", node.Name, err)
	}
	return host.LeakOf(node, pods.Items), nil
}

// rebootForSlots asks for the reboot, if nothing holds it back.
func (p *slotsPhase) rebootForSlots(ctx context.Context, v *visit, leak host.Leak) error {
	block, err := p.disruption.guarded(ctx, v, func() error { return p.askForReboot(ctx, v, leak) })
	if block.Reason != "" {
		v.slots = machine.False(infrav1.ReasonSlotsLeaked, "host %s waits for a reboot, which is held back (%s): %s", v.Host.Name, block.Reason, block.Message)
	}
	return err
}

func (p *slotsPhase) askForReboot(ctx context.Context, v *visit, leak host.Leak) error {
	now, asked := p.clock.Now(), false
	h, err := p.hosts.Amend(ctx, v.claimOnHost(), func(h *host.Host) bool {
		next, _ := host.NextLeak(h, leak, now)
		if asked = next == host.LeakReboot && !host.ChangedByOther(h); asked {
			host.AskForLeakReboot(h, leak, now)
		}
		return asked
	})
	if err != nil {
		return err
	}
	v.Host = h
	if asked {
		ctrl.LoggerFrom(ctx).Info("Reboot asked for", "host", h.Name, "serverID", h.Spec.ServerID, "why", h.Spec.Reboot.Reason)
		v.slots = machine.False(infrav1.ReasonRebootingForSlots, "host %s is to be rebooted: %s", h.Name, h.Spec.Reboot.Reason)
	}
	return nil
}
