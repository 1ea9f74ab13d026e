package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// detach forgets a host whose Node is empty and whose Mac was told to leave. The
// Node goes first: once the claim has ended nothing here remembers it.
func (r *Reconciler) detach(ctx context.Context, v *visit) error {
	if err := r.confirmDeletion(ctx, v); err != nil {
		return err
	}
	if err := r.forget(ctx, v, v.host.Name); err != nil {
		return err
	}
	r.event(v.machine, transition{corev1.EventTypeNormal, infrav1.ReasonDetached, "host " + v.host.Name + " is let go as it is; the vendor was asked for nothing"})
	return r.letGo(ctx, v, "detached")
}

// detaching recognises a person's recipe: the object is paused, its
// status.serverID was emptied, and it is deleted. An order has no server yet, and
// so an empty serverID that is nobody's word.
func detaching(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return annotations.HasPaused(m) && m.Status.ServerID == "" && !host.OrderMeant(m)
}

// detachByHand forgets the Mac: neither the vendor nor the Mac is touched, since
// another owner may live on it.
func (r *Reconciler) detachByHand(ctx context.Context, v *visit) error {
	_, verdict, err := r.inspect(ctx, v, r.Reader)
	if err != nil {
		return err
	}
	if verdict == host.Recreated {
		if missing, err := r.missingOwner(ctx, v.machine); err != nil || missing != "" {
			return r.letGoUnclaimed(ctx, v, err, host.Orphaned(v.machine.Spec.HostRef.Name, missing))
		}
	}
	if err := r.forget(ctx, v, v.machine.Spec.HostRef.Name); err != nil {
		return err
	}
	return r.letGo(ctx, v, "detached by hand")
}

// forget deletes the Machine's Node and ends its claim without a wipe.
func (r *Reconciler) forget(ctx context.Context, v *visit, name string) error {
	if err := r.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	return r.endClaim(ctx, name, host.ClaimOf(v.machine))
}

// endClaim takes our claim off a host, if it is there, and records that nothing
// was wiped. A released claim is the host controller's to end.
func (r *Reconciler) endClaim(ctx context.Context, name string, claim infrav1.ClaimReference) error {
	h := &host.Host{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, h); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !host.Carries(h, claim) || host.Ending(h) {
		return nil
	}
	host.Detach(h, r.Clock.Now())
	if err := r.Client.Update(ctx, h); err != nil {
		return fmt.Errorf("ending the claim of host %s: %w", name, err)
	}
	return nil
}
