package host

import (
	"context"
	"fmt"
	"time"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// idle is what a host without an owner needs: a person's wishes, its finalizer
// off, and another look when something ends by itself.
func (p *pass) idle(ctx context.Context) (ctrl.Result, error) {
	if err := p.endQuarantine(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if result, acting, err := p.adopt(ctx); acting || err != nil {
		return result, err
	}
	if err := p.rest(ctx); err != nil || p.ended {
		return ctrl.Result{}, err
	}
	if err := p.wipeUnseen(ctx); err != nil || p.host.Spec.Release != nil {
		return ctrl.Result{RequeueAfter: conflictDelay}, err
	}
	wait := p.untilQuarantineEnds()
	if p.seen.UnseenWaits != "" || !host.Clean(p.host) || p.host.Spec.Adopt != nil {
		wait = earlier(wait, p.InventoryInterval)
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// endQuarantine takes a quarantine off whose time is over: whoever chooses hosts
// need not know the time.
func (p *pass) endQuarantine(ctx context.Context) error {
	if p.host.Spec.Quarantine == nil || host.Quarantined(p.host, p.Clock.Now()) {
		return nil
	}
	reason := p.host.Spec.Quarantine.Reason
	if err := p.update(ctx, func(h *host.Host) { h.Spec.Quarantine = nil }); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("The quarantine is over", "reason", reason)
	return nil
}

func (p *pass) untilQuarantineEnds() time.Duration {
	q := p.host.Spec.Quarantine
	if q == nil || q.Until == nil {
		return 0
	}
	return max(q.Until.Sub(p.Clock.Now()), time.Millisecond)
}

// earlier of two waits; zero is none.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// handedOver leaves the host alone: it is another management cluster's, until its
// Machine is here again and stays.
func (p *pass) handedOver(ctx context.Context) (ctrl.Result, error) {
	if err := p.findOwner(ctx); err != nil || p.owner == nil {
		return ctrl.Result{}, err
	}
	back, err := p.cameBack(ctx)
	if err != nil || !back {
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, err
	}
	if err := p.update(ctx, func(h *host.Host) { h.Spec.Record.HandedOverAt = nil }); err != nil {
		return ctrl.Result{}, err
	}
	ctrl.LoggerFrom(ctx).Info("The Machine of a host that was handed over is back", "machine", p.owner.Name)
	return p.show(ctx)
}

// cameBack: an uncached read shows the Machine with its claim, neither leaving
// nor about to be moved, in a Cluster that is at work.
func (p *pass) cameBack(ctx context.Context) (bool, error) {
	m := &infrav1.ScalewayAppleSiliconMachine{}
	if err := p.Reader.Get(ctx, client.ObjectKeyFromObject(p.owner), m); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("reading the Machine of a host that was handed over: %w", err)
	}
	_, moving := m.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	if moving || !m.DeletionTimestamp.IsZero() || !host.MeansClaim(p.host, m) {
		return false, nil
	}
	return p.clusterStill(ctx)
}
