package machine

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/order"
)

// What an order is, and how it becomes a server, is package order's. Here is what the
// Machine does about it: its hostRef names the order, and then the server's Host.

// selectOrder names the Host of the Machine's order, once it can be placed.
func (p *claimPhase) selectOrder(ctx context.Context, v *visit) (string, error) {
	if v.Machine.Spec.Type == "" {
		v.claimed = machine.False(infrav1.ReasonOrderRejected, "spec.type is empty: an order must name the server type")
		return "", nil
	}
	name := host.OrderName(v.Machine.Name)
	err := p.client.Get(ctx, client.ObjectKey{Name: name}, &host.Host{})
	if apierrors.IsNotFound(err) {
		return name, nil
	}
	if err != nil {
		return "", fmt.Errorf("reading host %s: %w", name, err)
	}
	v.claimed = machine.False(infrav1.ReasonOrdering, "an older order named %s has not ended yet", name)
	return "", nil
}

// reconcileOrder follows an order: to its server where there is one, else it places it,
// or says how far it has come.
func (p *claimPhase) reconcileOrder(ctx context.Context, v *visit) error {
	moved, err := p.claims.followOrder(ctx, v, p.client)
	if err != nil || moved {
		return err
	}
	h, verdict, err := p.claims.judgeClaim(ctx, v, p.client)
	if err != nil {
		return err
	}
	if verdict != host.Ordering {
		if h, verdict, err = p.claims.judgeClaim(ctx, v, p.reader); err != nil {
			return err
		}
	}
	switch verdict {
	case host.PlaceOrder:
		if waits(v) {
			return nil
		}
		return p.placeOrder(ctx, v)
	case host.Releasing:
		return p.handleReleasing(ctx, v, h)
	case host.Recreated:
		return p.reclaimRecreated(ctx, v, h)
	case host.Copied:
		p.refuse(v, machine.Copied(v.Machine, h))
		return nil
	case host.Lost:
		return p.chooseAgain(ctx, v, "is another Machine's order")
	}
	v.claimed = orderProgress(h)
	return nil
}

// placeOrder makes the Host of the order, after uncached reads that prove that the
// Machine still wants it and that no server was made for this token already.
func (p *claimPhase) placeOrder(ctx context.Context, v *visit) error {
	if err := p.machines.confirmHostRef(ctx, v, false); err != nil {
		return err
	}
	if moved, err := p.claims.followOrder(ctx, v, p.reader); err != nil || moved {
		return err
	}
	placed := order.New(v.Machine, v.Zone(), v.ClaimRef())
	exceeded, err := p.orders.Place(ctx, p.client, p.reader, placed, func() (*int32, error) {
		profile, err := p.machines.profile(ctx, v.Machine)
		if err != nil {
			return nil, err
		}
		return profile.Spec.MaxOrdered, nil
	})
	if missing, ok := errors.AsType[*unknownProfileError](err); ok {
		v.claimed = machine.False(infrav1.ReasonUnknownProfile, "%s", missing)
		return nil
	}
	if err != nil {
		return lostRace(err)
	}
	if exceeded != "" {
		v.poll = waitPoll // what was ordered goes without waking us
		v.claimed = machine.False(infrav1.ReasonOrderLimitReached, "%s", exceeded)
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Order placed", "host", placed.Name, "type", v.Machine.Spec.Type, "zone", v.Zone())
	v.claimed = orderProgress(placed)
	return nil
}

// orderProgress is what the host controller says of the order.
func orderProgress(h *host.Host) machine.Finding {
	reason, message := order.Progress(h)
	return machine.False(reason, "%s", message)
}
