package host

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clusterstate"
	"github.com/macfleet/macfleet/internal/host"
)

// findOwner looks for the Machine that holds the claim. Only an uncached read
// says that there is none. One that was created again under the same name is its
// owner already: its controller records the UID.
func (p *pass) findOwner(ctx context.Context) error {
	claim := p.host.Spec.ClaimRef
	if claim == nil {
		return nil
	}
	for _, reader := range []client.Reader{p.Client, p.Reader} {
		m := &infrav1.ScalewayAppleSiliconMachine{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}, m)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the Machine of the claim: %w", err)
		}
		if err == nil && host.MeansClaim(p.host, m) {
			p.owner = m
			return nil
		}
	}
	p.seen.OwnerGone = true
	return nil
}

// pools are the prefixes of the owner's pool, or of all pools known here.
func (p *pass) pools(ctx context.Context) ([]string, error) {
	if p.owner != nil {
		return []string{p.DefaultPoolPrefix, p.Options.pools().Prefix(p.owner)}, nil
	}
	reader := client.Reader(p.Client)
	if phase := p.stored.Phase; phase != infrav1.HostAvailable && phase != infrav1.HostForeign {
		reader = p.Reader // it may become available now: the cache may not know its Machine yet
	}
	named := false
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := reader.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	pools := p.Options.pools().Known(machines.Items)
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.Spec.HostRef != nil && m.Spec.HostRef.Name == p.host.Name {
			p.seen.Wanted = true
			named = named || m.Name == p.host.Status.Server.Name
		}
	}
	if !named && host.InPool(p.host.Status.Server.Name, p.host.Spec.ServerID, pools...) {
		p.seen.Wanted = false // a wish for a host in the pool takes nothing from it
	}
	return pools, nil
}

// rest is all there is to do for a host that nobody has.
func (p *pass) rest(ctx context.Context) error {
	p.unshow()
	pools, err := p.pools(ctx)
	if err != nil {
		return err
	}
	p.seen.PoolPrefixes = pools
	if err := p.wipedByHand(ctx); err != nil {
		return err
	}
	if !controllerutil.ContainsFinalizer(p.host, infrav1.HostFinalizer) {
		return nil
	}
	return p.letGo(ctx, func(*host.Host) {})
}

// wipedByHand records a reinstall that a person asked for at the vendor: it is
// the way out for a host that was let go unwiped.
func (p *pass) wipedByHand(ctx context.Context) error {
	seen, known := p.Inventory.readings.look(p.host.Spec.Zone, p.host.Spec.ServerID)
	if !known || !seen.missingSince.IsZero() {
		return nil
	}
	look := host.WipeLook{Server: seen.server, Began: seen.at, Settle: p.Settle, Known: p.known.note(p.host, p.Clock.Now())}
	switch host.NextUnasked(p.host, look) {
	case host.WipeStart:
		ctrl.LoggerFrom(ctx).Info("A host that was not wiped is being reinstalled by hand")
		return p.update(ctx, func(h *host.Host) {
			host.RecordWipe(h, p.Clock.Now())
			host.RecordWipeStart(h, p.Clock.Now())
		})
	case host.WipeForget:
		ctrl.LoggerFrom(ctx).Info("The reinstall by hand failed; the host is as unclean as before")
		return p.update(ctx, host.ForgetWipe)
	case host.WipeObserve:
		ctrl.LoggerFrom(ctx).Info("The reinstall by hand was observed; the host is clean")
		return p.update(ctx, func(h *host.Host) {
			host.RecordWiped(h, p.Clock.Now())
			host.Free(h)
		})
	default:
		return nil
	}
}

// letGo drops the finalizer with the last change of the spec.
func (p *pass) letGo(ctx context.Context, change func(*host.Host)) error {
	err := p.update(ctx, func(h *host.Host) {
		change(h)
		controllerutil.RemoveFinalizer(h, infrav1.HostFinalizer)
	})
	p.ended = err == nil && !p.host.DeletionTimestamp.IsZero()
	return err
}

// clusterStill reports that the Cluster is here and not paused, uncached.
func (p *pass) clusterStill(ctx context.Context) (bool, error) {
	claim := p.host.Spec.ClaimRef
	state, err := clusterstate.Get(ctx, p.Reader, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Cluster})
	return err == nil && !state.Missing && !state.Paused, err
}
