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
	if err := p.machines.confirmIntent(ctx, v, false); err != nil {
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

// lostRace: another manager placed the order; look again, as at any lost race.
func lostRace(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return errStale
	}
	return err
}

// orderProgress is what the host controller says of the order.
func orderProgress(h *host.Host) machine.Finding {
	reason, message := order.Progress(h)
	return machine.False(reason, "%s", message)
}

// ownershipOfOrder is claimOwnership for an intent that is an order. Done: v.Host is the
// order. Where nothing was made of it yet, the order is made with its release, so
// that another manager's that is on its way finds it taken: it would be a server
// for nobody.
func (p *ownerships) ownershipOfOrder(ctx context.Context, v *visit) (done bool, err error) {
	if moved, err := p.claims.followOrder(ctx, v, p.reader); err != nil || moved {
		return false, err
	}
	h, verdict, err := p.claims.judgeClaim(ctx, v, p.reader)
	if err != nil {
		return false, err
	}
	switch verdict {
	case host.Ordering, host.Releasing:
		v.Host = h
		return true, nil
	case host.PlaceOrder:
		if err := p.machines.confirmDeletion(ctx, v); err != nil {
			return false, err
		}
		h = order.New(v.Machine, v.Zone(), v.ClaimRef())
		if h.Spec.Zone == "" || h.Spec.Order.Type == "" {
			return false, nil // it could never have been placed
		}
		h.Spec.Release = p.releases.newRelease(v, infrav1.Terminate)
		v.Host = h
		_, err = p.orders.Place(ctx, p.client, p.reader, h, nil) // a limit holds up nothing that is released
		return true, lostRace(err)
	}
	return false, nil
}

// cancelOrder releases an order, and the server that was made of it meanwhile.
// Nobody can detach or pool what does not exist: it is given back.
func (p *releasePhase) cancelOrder(ctx context.Context, v *visit) error {
	policy := p.releases.exitPolicy(v, true)
	if policy == infrav1.Detach || p.pools.Prefix(v.Machine) == "" {
		policy = infrav1.Terminate
	}
	if err := p.releases.recordRelease(ctx, v, policy); err != nil {
		return err
	}
	server, err := order.Delivered(ctx, p.reader, host.ClaimOf(v.Machine))
	if err != nil {
		return err
	}
	if server != nil && server.Spec.Release == nil {
		v.Host = server
		if err := p.releases.recordRelease(ctx, v, policy); err != nil {
			return err
		}
	}
	return p.removeFinalizer(ctx, v, "order cancelled")
}
