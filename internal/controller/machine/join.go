package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/workload"
)

// join says what has become of the Machine's Node, and ends the bootstrap token
// once the Node is Ready.
func (r *Reconciler) join(ctx context.Context, v *visit) (ctrl.Result, error) {
	if v.machine.Spec.ProviderID == "" || v.host == nil {
		v.joined = unknown(infrav1.ReasonWaitingForNode, "the Mac is not converged yet")
		return ctrl.Result{}, nil
	}
	if err := r.findNode(ctx, v); err != nil {
		return ctrl.Result{}, err
	}
	v.joined = judgeNode(v)
	if push, running := r.pushes.look(client.ObjectKeyFromObject(v.machine)); running && !push.done {
		return ctrl.Result{}, nil // its token is its own, until it says what the Mac holds
	}
	if v.joined.reason == infrav1.NodeReadyCondition && v.keptByUs() && (v.staged.tokenID != "" || v.host.Spec.Record.Bootstrap.TokenID != "") {
		return ctrl.Result{}, r.dropToken(ctx, client.ObjectKeyFromObject(v.machine), v.meant())
	}
	return r.heal(v), nil
}

// heal says when the Mac may need another token: once the one it holds has ended,
// or once its Node was not Ready for too long. Nothing else would wake us then.
func (r *Reconciler) heal(v *visit) ctrl.Result {
	now := r.Clock.Now()
	since, unready := unreadySince(v)
	switch {
	case v.node != nil && !unready:
		return ctrl.Result{}
	case v.staged.joinable(now):
		return after(now, v.staged.tokenExpires)
	case unready && now.Before(since.Add(silentLimit)):
		return after(now, since.Add(silentLimit))
	}
	return ctrl.Result{}
}

func judgeNode(v *visit) finding {
	node := v.node
	switch {
	case node == nil && nodeWasThere(v):
		return no(infrav1.ReasonNodeMissing, "Node %s is gone", v.machine.Name)
	case node == nil:
		return no(infrav1.ReasonWaitingForNode, "Node %s has not registered yet", v.machine.Name)
	case node.Spec.ProviderID != "" && node.Spec.ProviderID != v.machine.Spec.ProviderID:
		return no(infrav1.ReasonProviderIDMismatch, "Node %s says it is %s", node.Name, node.Spec.ProviderID)
	case node.Spec.ProviderID == "":
		return no(infrav1.ReasonNodeNotReady, "Node %s has no providerID yet", node.Name)
	case !workload.NodeReady(node):
		return no(infrav1.ReasonNodeNotReady, "Node %s is not Ready", node.Name)
	}
	return yes(infrav1.NodeReadyCondition)
}

// nodeWasThere reports whether the Node existed before, as core or our own
// condition remembers it.
func nodeWasThere(v *visit) bool {
	if v.owner != nil && v.owner.Status.NodeRef.IsDefined() {
		return true
	}
	switch conditions.GetReason(v.machine, infrav1.NodeReadyCondition) {
	case infrav1.NodeReadyCondition, infrav1.ReasonNodeNotReady, infrav1.ReasonNodeMissing, infrav1.ReasonProviderIDMismatch:
		return true
	}
	return false
}

// findNode reads the Node of the Machine's name. That it is absent is believed
// of the API server only, since a new token follows from it.
func (r *Reconciler) findNode(ctx context.Context, v *visit) error {
	if v.nodeRead {
		return nil
	}
	node := &corev1.Node{}
	key := client.ObjectKey{Name: v.machine.Name}
	err := r.Client.Get(ctx, key, node)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, key, node)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Node %s: %w", v.machine.Name, err)
	}
	v.nodeRead = true
	if err == nil {
		v.node = node
	}
	return nil
}
