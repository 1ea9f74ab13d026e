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
	"github.com/macfleet/macfleet/internal/host"
)

// reasonClaimRestored is the event of a host that an earlier object of the
// Machine's name had claimed.
const reasonClaimRestored = "ClaimRestored"

// claimAgain claims a host that was lost and found again, if uncached reads prove
// that it was this Machine's.
func (r *Reconciler) claimAgain(ctx context.Context, v *visit, h *host.Host) error {
	refusal, err := r.mayClaimAgain(ctx, v, h)
	if err != nil {
		return err
	}
	if refusal.Reason != "" {
		v.poll = waitPoll
		r.refuse(v, no(refusal.Reason, "%s", refusal.Message))
		return nil
	}
	return r.acquire(ctx, v, h, host.ClaimAgain)
}

// mayClaimAgain gathers what host.MayClaimAgain decides from.
func (r *Reconciler) mayClaimAgain(ctx context.Context, v *visit, h *host.Host) (host.Refusal, error) {
	in := host.ClaimAgainInput{Host: h, PoolPrefix: r.namedLikeAPool(v.machine), Now: r.Clock.Now()}
	var err error
	if in.Claimant, err = r.claimant(ctx, v.machine); err != nil {
		return host.Refusal{}, err
	}
	if in.MissingOwner, err = r.missingOwner(ctx, v.machine); err != nil {
		return host.Refusal{}, err
	}
	if in.Rivals, err = r.rivals(ctx, v.machine, h); err != nil {
		return host.Refusal{}, err
	}
	return host.MayClaimAgain(in), nil
}

func (r *Reconciler) claimant(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) (host.Claimant, error) {
	s, err := r.readStaged(ctx, client.ObjectKeyFromObject(m))
	return host.Claimant{Machine: m, Staged: host.StagedClaim{Token: s.claimToken, Epoch: s.epoch}}, err
}

// rivals are the Machines of the same name in other namespaces that mean the host.
// A manager of one namespace sees none; a Secret that cannot be read proves nothing.
func (r *Reconciler) rivals(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine, h *host.Host) ([]host.Claimant, error) {
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	err := r.Reader.List(ctx, list)
	if apierrors.IsForbidden(err) {
		err = r.Client.List(ctx, list)
	}
	if err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	var rivals []host.Claimant
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name != m.Name || other.Namespace == m.Namespace || !host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{*other}).Mean(h) {
			continue
		}
		rival, err := r.claimant(ctx, other)
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		rivals = append(rivals, rival)
	}
	return rivals, nil
}

// takeBack records that the claim is this object's: the one that made it, of the
// same namespace, name and token, is gone. A backup was restored, or the Cluster
// was moved away and back.
func (r *Reconciler) takeBack(ctx context.Context, v *visit, h *host.Host) error {
	missing, err := r.missingOwner(ctx, v.machine)
	if err != nil {
		return err
	}
	if missing != "" {
		v.poll = waitPoll
		r.refuse(v, no(infrav1.ReasonClaimConflict, "%s", host.Orphaned(h.Name, missing)))
		return nil
	}
	if err := r.recordUID(ctx, v, h); err != nil {
		return err
	}
	if h.Spec.Order != nil {
		v.claimed = orderProgress(h)
		return nil
	}
	if h.Spec.Release != nil {
		return r.yield(ctx, v, h)
	}
	return r.keep(ctx, v, h)
}

// recordUID writes this object's UID into the claim, under the resourceVersion of
// the read that showed another one's, and after an uncached read of the Machine.
func (r *Reconciler) recordUID(ctx context.Context, v *visit, h *host.Host) error {
	if err := r.confirmIntent(ctx, v, true); err != nil {
		return err
	}
	before := h.Spec.ClaimRef.UID
	h.Spec.ClaimRef.UID = v.machine.UID
	if err := r.Client.Update(ctx, h); err != nil {
		return fmt.Errorf("taking back host %s: %w", h.Name, err)
	}
	if before == "" {
		return nil
	}
	r.metrics.claim(claimAgain)
	r.event(v.machine, transition{corev1.EventTypeNormal, reasonClaimRestored, "host " + h.Name + " was claimed for an earlier object of this name, which is gone; it is this object's again"})
	ctrl.LoggerFrom(ctx).Info("Host taken back", "host", h.Name, "serverID", h.Spec.ServerID, "was", before, "is", v.machine.UID)
	return nil
}

// refuse says why the Machine has no right to the host that it means; as an event
// too, once.
func (r *Reconciler) refuse(v *visit, why finding) {
	v.claimed = why
	if c := conditions.Get(v.machine, infrav1.HostClaimedCondition); c == nil || c.Message != why.message {
		r.event(v.machine, transition{corev1.EventTypeWarning, why.reason, why.message})
	}
}

// copied says whose the host is that the Machine's hostRef was copied for.
func copied(m *infrav1.ScalewayAppleSiliconMachine, h *host.Host) finding {
	way := "delete it, or remove spec.hostRef to have it choose a host of its own"
	if m.Spec.ProviderID != "" {
		// Core finds the owner's Node by this providerID when the copy's Machine goes.
		way = "delete it; where a Machine owns it, pause that first, or Cluster API drains and deletes the other's Node"
	}
	owner := h.Spec.ClaimRef
	return no(infrav1.ReasonClaimConflict, "host %s is claimed for Machine %s/%s, whose hostRef this object copies: it claims nothing, and its deletion releases nothing; %s", h.Name, owner.Namespace, owner.Name, way)
}

// lose gives up a host that is not the Machine's. One that was provisioned keeps
// showing its loss: its Mac cannot be swapped any more. The Node that is left of it
// goes, so that health checks find it gone.
func (r *Reconciler) lose(ctx context.Context, v *visit, h *host.Host) error {
	if conditions.GetReason(v.machine, infrav1.HostClaimedCondition) != infrav1.ReasonClaimLost {
		r.metrics.claim(claimLost)
	}
	v.claimed = no(infrav1.ReasonClaimLost, "host %s is not this Machine's: %s", h.Name, whose(h, v.machine))
	if v.machine.Spec.ProviderID != "" {
		key := client.ObjectKeyFromObject(v.machine)
		r.pushes.cancel(key)
		r.checks.cancel(key)
		if host.LeftBehind(h, v.machine) {
			return r.deleteOwnNode(ctx, v)
		}
		return nil
	}
	if host.TakesOver(v.machine) {
		return nil // it never gets another host
	}
	if host.HoldsClaim(h, v.machine) {
		if err := r.endClaim(ctx, h.Name, host.ClaimOf(v.machine)); err != nil {
			return err
		}
	}
	return r.dropIntent(ctx, v)
}

// whose says how it shows that a host is not the Machine's.
func whose(h *host.Host, m *infrav1.ScalewayAppleSiliconMachine) string {
	name := h.Status.Server.Name
	switch ref := h.Spec.ClaimRef; {
	case ref == nil:
		return fmt.Sprintf("nobody has claimed it, and its server's name is %q: it was freed", name)
	case !host.MeansClaim(h, m):
		return fmt.Sprintf("it is claimed for Machine %s/%s, and its server's name is %q", ref.Namespace, ref.Name, name)
	}
	return fmt.Sprintf("its server's name is now %q", name)
}
