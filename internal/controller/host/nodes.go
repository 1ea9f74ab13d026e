package host

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/host"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;delete

// forgetNode deletes the Node of a Mac that is being released, for as long as
// its old OS may still be running: a Mac that left cannot come back as a Node.
// Only a Node with this host's providerID; and never while the Cluster is paused
// or missing, since then it may have moved elsewhere with its Macs.
// What fails here is tried again at the next pass and does not hold up the wipe.
func (p *pass) forgetNode(ctx context.Context) {
	wipe := p.host.Spec.Record.Wipe
	observed := wipe.RequestedAt != nil && wipe.ObservedAt != nil
	if observed || !host.Licensed(p.host) {
		return
	}
	if err := p.deleteNode(ctx); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The Node of a released host is still there")
	}
}

func (p *pass) deleteNode(ctx context.Context) error {
	node := &corev1.Node{}
	err := p.NodeReader.Get(ctx, client.ObjectKey{Name: p.host.Spec.ClaimRef.Name}, node)
	if err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("reading the Node of a released host: %w", err)
	}
	if node.Spec.ProviderID != host.ProviderID(p.host.Spec.Zone, p.host.Spec.ServerID) {
		return nil
	}
	if still, err := p.clusterStill(ctx); err != nil || !still {
		return err
	}
	uid := node.UID
	if err := p.NodeWriter.Delete(ctx, node, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the Node of a released host: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted the Node of a released host", "node", node.Name)
	return nil
}
