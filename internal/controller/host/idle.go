package host

import (
	"context"
	"fmt"
	"sync"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/requeue"
)

// idling is the phase of a host that nobody has: what a person wishes for it, its
// finalizer off, and another look when something ends by itself.
type idling struct {
	*vendor
	adoption adoption
	// judging is held while a host that was never seen wiped is judged.
	judging *sync.Mutex
}

func (p *idling) reconcile(ctx context.Context) (ctrl.Result, error) {
	if err := p.endQuarantine(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if result, acting, err := p.adoption.reconcile(ctx); acting || err != nil {
		return result, err
	}
	if err := p.rest(ctx); err != nil || p.deleted {
		return ctrl.Result{}, err
	}
	if err := p.wipeUnseen(ctx); err != nil || p.host.Spec.Release != nil {
		return ctrl.Result{RequeueAfter: requeue.Delay}, err
	}
	if p.observed.UnseenWaits != "" || !host.Clean(p.host) || p.host.Spec.Adopt != nil {
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, nil
	}
	return ctrl.Result{}, nil
}

// endQuarantine takes a quarantine off whose time is over: whoever chooses hosts
// need not know the time.
func (p *idling) endQuarantine(ctx context.Context) error {
	if p.host.Spec.Quarantine == nil || host.Quarantined(p.host, p.now()) {
		return nil
	}
	reason := p.host.Spec.Quarantine.Reason
	if err := p.Update(ctx, func(h *host.Host) { h.Spec.Quarantine = nil }); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("The quarantine is over", "reason", reason)
	return nil
}

// rest is all there is to do for a host that nobody has.
func (p *idling) rest(ctx context.Context) error {
	p.clearShown()
	if err := p.seeWishes(ctx); err != nil {
		return err
	}
	if err := p.recordManualWipe(ctx); err != nil {
		return err
	}
	if !controllerutil.ContainsFinalizer(p.host, infrav1.HostFinalizer) {
		return nil
	}
	return p.removeFinalizer(ctx, func(*host.Host) {})
}

// seeWishes finds out whether a live Machine means the host, before others can claim it.
// A pool name that may be older than that Machine's is read from the server itself;
// until that answers, the host is as if no list had shown it.
func (p *idling) seeWishes(ctx context.Context) error {
	machines, err := p.machines(ctx)
	if err != nil {
		return err
	}
	pools := p.pools().Known(machines)
	if p.readAt.IsZero() && host.PoolNameDoubtful(p.host, p.stored.Server.Name, machines, pools...) {
		if _, _, err := p.read(ctx); err != nil {
			p.host.Status.Server = p.stored.Server
			return fmt.Errorf("reading the server that a list shows in the pool: %w", err)
		}
	}
	p.observed.PoolPrefixes, p.observed.Wanted = pools, host.Wanted(p.host, machines, pools...)
	return nil
}

// recordManualWipe records a reinstall that a person asked for at the vendor: it is
// the way out for a host that was let go unwiped.
func (p *idling) recordManualWipe(ctx context.Context) error {
	seen, known := p.reading()
	if !known || !seen.missingSince.IsZero() {
		return nil
	}
	in := host.WipeInput{Server: seen.server, Began: seen.at, Settle: p.Settle, FirstSeen: p.since(p.now())}
	switch host.NextManualWipe(p.host, in) {
	case host.WipeStart:
		ctrl.LoggerFrom(ctx).Info("A host that was not wiped is being reinstalled by hand")
		return p.Update(ctx, func(h *host.Host) {
			host.RecordWipe(h, p.now())
			host.RecordWipeStart(h, p.now())
		})
	case host.WipeForget:
		ctrl.LoggerFrom(ctx).Info("The reinstall by hand failed; the host is as unclean as before")
		return p.Update(ctx, host.ForgetWipe)
	case host.WipeObserve:
		ctrl.LoggerFrom(ctx).Info("The reinstall by hand was observed; the host is clean")
		return p.Update(ctx, func(h *host.Host) {
			host.RecordWiped(h, p.now())
			host.Free(h)
		})
	default:
		return nil
	}
}
