package machine

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/machine"
)

// scaleDownPhase holds the Node of a Mac that is paid for anyway against the
// autoscaler.
type scaleDownPhase struct {
	client client.Client
	clock  clock.PassiveClock
}

// run writes on the Node what package machine decides, and comes back when a hold ends.
func (p *scaleDownPhase) run(ctx context.Context, v *visit) (ctrl.Result, error) {
	if v.Machine.Spec.ProviderID == "" || v.Node == nil || v.Node.Spec.ProviderID != v.Machine.Spec.ProviderID || !v.Node.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	now := p.clock.Now()
	hold := machine.HoldScaleDown(v.Snapshot, now)
	var result ctrl.Result
	if !hold.Until.IsZero() {
		result = after(now, hold.Until)
	}
	want := machine.HoldAnnotations(v.Node.Annotations, hold)
	if maps.Equal(want, v.Node.Annotations) {
		return result, nil
	}
	node := v.Node.DeepCopy()
	node.Annotations = want
	patch := client.MergeFromWithOptions(v.Node, client.MergeFromWithOptimisticLock{})
	if err := p.client.Patch(ctx, node, patch); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("holding Node %s against a scale-down: %w", node.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Said on the Node whether the autoscaler may remove it", "node", node.Name, "heldUntil", hold.Until)
	v.Node = node
	return result, nil
}
