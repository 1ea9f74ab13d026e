package host

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
)

// moved leaves the host alone: clusterctl moved it to another management cluster, until its
// Machine is here again and stays.
func (p *showing) moved(ctx context.Context) (ctrl.Result, error) {
	if err := p.findOwner(ctx); err != nil || p.owner == nil {
		return ctrl.Result{}, err
	}
	back, err := p.cameBack(ctx)
	if err != nil || !back {
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, err
	}
	if err := p.Update(ctx, func(h *host.Host) { h.Spec.Record.HandedOverAt = nil }); err != nil {
		return ctrl.Result{}, err
	}
	ctrl.LoggerFrom(ctx).Info("The Machine of a host that was handed over is back", "machine", p.owner.Name)
	return p.reconcile(ctx)
}

// cameBack: an uncached read shows the Machine with its claim, neither leaving
// nor about to be moved, in a Cluster that is at work.
func (p *showing) cameBack(ctx context.Context) (bool, error) {
	m := &infrav1.ScalewayAppleSiliconMachine{}
	if err := p.Reader.Get(ctx, client.ObjectKeyFromObject(p.owner), m); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("reading the Machine of a host that was handed over: %w", err)
	}
	if machine.BeingMoved(m) || !m.DeletionTimestamp.IsZero() || !host.MeansClaim(p.host, m) {
		return false, nil
	}
	return p.clusterActive(ctx)
}
