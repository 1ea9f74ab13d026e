package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// claimState is what a claim is worth when its Machine goes.
type claimState int

const (
	// claimOurs: the host carries our token.
	claimOurs claimState = iota
	// claimNone: there is nothing to release.
	claimNone
	// claimBlocked: it cannot be told yet.
	claimBlocked
)

// standing says what the claim is worth when the Machine is deleted, from an
// uncached read. A Host that was rebuilt, and whose server bears the Machine's
// name, is claimed again first: only what is claimed can be released.
func (r *Reconciler) standing(ctx context.Context, v *visit) (claimState, error) {
	if host.OrderMeant(v.machine) {
		if done, err := r.standingOfOrder(ctx, v); done || err != nil {
			return claimOurs, err
		}
	}
	h, verdict, err := r.inspect(ctx, v, r.Reader)
	if err != nil {
		return claimBlocked, err
	}
	switch verdict {
	case host.Held, host.Releasing:
		v.host = h
		return claimOurs, nil
	case host.ClaimAgain:
		return r.standingOfUnclaimed(ctx, v, h)
	case host.Recreated:
		return r.standingOfRecreated(ctx, v, h)
	case host.Copied:
		v.released = copied(v.machine, h)
		return claimNone, nil
	case host.Lost:
		if host.HoldsClaim(h, v.machine) {
			v.host = h
			return claimOurs, nil
		}
		return claimNone, r.deleteOwnNode(ctx, v)
	case host.Acquire, host.ChooseAgain:
		if err := r.bar(ctx, h, v.token()); err != nil {
			return claimBlocked, err
		}
		return claimNone, r.deleteOwnNode(ctx, v) // the Mac may have joined before its claim was lost
	}
	if h == nil {
		return r.standingOfNothing(ctx, v)
	}
	if h.Spec.ClaimRef == nil && h.Status.Server.Name != "" {
		return claimNone, r.deleteOwnNode(ctx, v) // it is known, and nobody's
	}
	return r.blocked(v), nil
}

// standingOfUnclaimed is standing for a host whose server bears the Machine's name.
// Where nothing proves that the Machine had it, nothing is released.
func (r *Reconciler) standingOfUnclaimed(ctx context.Context, v *visit, h *host.Host) (claimState, error) {
	refusal, err := r.mayClaimAgain(ctx, v, h)
	switch {
	case err != nil:
		return claimBlocked, err
	case refusal.Withheld():
		v.released = no(infrav1.ReasonReleaseBlocked, "%s", refusal.Message)
		return claimBlocked, nil
	case refusal.Reason != "":
		v.released = no(refusal.Reason, "%s", refusal.Message)
		return claimNone, nil
	}
	return claimOurs, r.acquire(ctx, v, h, host.ClaimAgain)
}

// standingOfRecreated is standing for a host whose claim an earlier object of this
// name made. An object that the API server deletes because a restore left it
// without its owner releases nothing.
func (r *Reconciler) standingOfRecreated(ctx context.Context, v *visit, h *host.Host) (claimState, error) {
	missing, err := r.missingOwner(ctx, v.machine)
	if err != nil {
		return claimBlocked, err
	}
	if missing != "" {
		v.released = no(infrav1.ReasonClaimConflict, "%s", host.Orphaned(h.Name, missing))
		return claimNone, nil
	}
	v.host = h
	return claimOurs, r.recordUID(ctx, v, h)
}

// standingOfNothing is standing for a Host that does not exist.
func (r *Reconciler) standingOfNothing(ctx context.Context, v *visit) (claimState, error) {
	lost, err := r.lost(ctx, v)
	if err != nil {
		return claimBlocked, err
	}
	if lost {
		return claimNone, r.deleteOwnNode(ctx, v)
	}
	return r.blocked(v), nil
}

// blocked says why the Machine cannot go yet, and the way out where time alone will
// not bring it: detaching recognises that.
func (r *Reconciler) blocked(v *visit) claimState {
	name := v.machine.Spec.HostRef.Name
	v.released = no(infrav1.ReasonReleaseBlocked, "host %s is not in the inventory: it is released once it is found again, or forgotten once its server is proved gone", name)
	if v.proof == proofNever {
		v.released = no(infrav1.ReasonReleaseBlocked, "host %s is not in the inventory, and the lists of zone %s stay empty, as with lost rights: mend those; or, if the server is gone, annotate this object with %s=true and set its status.serverID to null", name, hostZone(name), clusterv1.PausedAnnotation)
	}
	return claimBlocked
}

// barAnnotation of a Host holds the last token that must not claim it any more.
const barAnnotation = "infrastructure.cluster.x-k8s.io/barred-claim"

// bar changes a free Host, so that another manager's claim with this token that
// is on its way meets a conflict: it would be held for a Machine that is no more.
func (r *Reconciler) bar(ctx context.Context, h *host.Host, token string) error {
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, barAnnotation, token)
	if err := r.Client.Update(ctx, h); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("barring a claim of host %s: %w", h.Name, err)
	}
	return nil
}
