package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

// slotPoll is how often a Mac that waits to be rebooted is looked at: Pods are not
// watched.
const slotPoll = 15 * time.Second

// slotNews reports that a Node tells something else of its places.
func slotNews(before, now *corev1.Node) bool {
	a, b := host.LeakOf(before, nil), host.LeakOf(now, nil)
	return a.Leaked != b.Leaked || a.BootID != b.BootID || a.Places != b.Places
}

// mendSlots has a Mac rebooted that counts macOS guests that are gone, once nobody is
// disturbed by it. The host controller cuts the power, after a look of its own.
func (r *Reconciler) mendSlots(ctx context.Context, v *visit) (ctrl.Result, error) {
	if v.machine.Spec.ProviderID == "" || v.host == nil || v.untouchable || v.node == nil || v.node.Spec.ProviderID != v.machine.Spec.ProviderID {
		return ctrl.Result{}, nil
	}
	if leak := host.LeakOf(v.node, nil); !leak.Leaked {
		if leak.Ready && conditions.IsFalse(v.machine, infrav1.SlotsHealthyCondition) {
			v.slots = yes(infrav1.ReasonSlotsUsable)
		}
		return ctrl.Result{}, nil
	}
	if v.leaving() || v.cluster == nil {
		return ctrl.Result{}, nil
	}
	leak, err := r.leakNow(ctx, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.Clock.Now()
	switch next, why := host.NextLeak(v.host, leak, now); next {
	case host.LeakWait:
		v.slots = no(infrav1.ReasonSlotsLeaked, "macOS on host %s counts guests that are gone: %s", v.host.Name, why)
	case host.LeakUnderway:
		v.slots = no(infrav1.ReasonRebootingForSlots, "host %s: %s", v.host.Name, why)
	case host.LeakStays:
		v.slots = no(infrav1.ReasonSlotsStillLeaked, "host %s: %s", v.host.Name, why)
		if at := host.LeakLook(v.host, now); !at.IsZero() {
			return after(now, at), nil
		}
	case host.LeakReboot:
		err = r.rebootForSlots(ctx, v, leak)
	}
	return ctrl.Result{RequeueAfter: slotPoll}, err
}

// leakNow reads the Node and its Pods uncached: a Pod that the cache does not know yet
// must not lose its guest. A Node that is not this Mac's tells of no leak.
func (r *Reconciler) leakNow(ctx context.Context, v *visit) (host.Leak, error) {
	node := &corev1.Node{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(v.node), node); err != nil {
		return host.Leak{}, fmt.Errorf("reading Node %s: %w", v.node.Name, err)
	}
	if node.Spec.ProviderID != v.machine.Spec.ProviderID {
		return host.Leak{}, nil
	}
	pods := &corev1.PodList{}
	if err := r.Reader.List(ctx, pods, client.MatchingFields{workload.NodeNameField: node.Name}); err != nil {
		return host.Leak{}, fmt.Errorf("listing the Pods of Node %s: %w", node.Name, err)
	}
	return host.LeakOf(node, pods.Items), nil
}

// rebootForSlots asks for the reboot, if the storm guard allows it.
func (r *Reconciler) rebootForSlots(ctx context.Context, v *visit, leak host.Leak) error {
	if !r.storm.TryLock() {
		return errStale // another one is counting; look again when it has added itself
	}
	defer r.storm.Unlock()
	hold, err := r.heldBack(ctx, v.host)
	if err != nil {
		return err
	}
	if hold.Reason != "" {
		v.slots = no(infrav1.ReasonSlotsLeaked, "host %s waits for a reboot, which is held back (%s): %s", v.host.Name, hold.Reason, hold.Message)
		return nil
	}
	if err := r.confirmTrouble(ctx, v); err != nil {
		return err
	}
	now, asked := r.Clock.Now(), false
	h, err := r.amendHost(ctx, v.host.Name, host.ClaimOf(v.machine), func(h *host.Host) bool {
		next, _ := host.NextLeak(h, leak, now)
		if asked = next == host.LeakReboot && !host.ChangedByOther(h); asked {
			host.AskForLeakReboot(h, leak, now)
		}
		return asked
	})
	if err != nil {
		return err
	}
	v.host = h
	if asked {
		ctrl.LoggerFrom(ctx).Info("Reboot asked for", "host", h.Name, "serverID", h.Spec.ServerID, "why", h.Spec.Reboot.Reason)
		v.slots = no(infrav1.ReasonRebootingForSlots, "host %s is to be rebooted: %s", h.Name, h.Spec.Reboot.Reason)
	}
	return nil
}
