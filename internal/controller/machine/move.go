package machine

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
)

// recordMove notes on the host that it goes with its Machine, and touches nothing:
// the other management cluster works on the Mac already.
func (r *Reconciler) recordMove(ctx context.Context, v *visit) error {
	if v.Machine.Spec.HostRef == nil {
		return nil
	}
	written := false
	h, err := r.hosts.Amend(ctx, hostclaim.RefOf(v.Machine), func(h *host.Host) bool {
		written = h.Spec.Record.HandedOverAt == nil && h.Spec.Release == nil
		if written {
			host.RecordMove(h, r.Clock.Now())
		}
		return written
	})
	if apierrors.IsNotFound(err) || errors.Is(err, hostclaim.ErrGone) {
		return nil
	}
	if err != nil || !written {
		return err
	}
	r.machines.event(v.Machine, corev1.EventTypeNormal, infrav1.ReasonHandedOver, "host "+h.Name+" goes to another management cluster with this Machine")
	ctrl.LoggerFrom(ctx).Info("Host handed over", "host", h.Name, "serverID", h.Spec.ServerID)
	return nil
}

// cancelMove takes a hand-over back: its Machine lives on here, neither paused nor
// being moved.
func (p *claimPhase) cancelMove(ctx context.Context, v *visit) error {
	if v.Host.Spec.Record.HandedOverAt == nil {
		return nil
	}
	h, err := p.hosts.Amend(ctx, v.claimOnHost(), func(h *host.Host) bool {
		was := h.Spec.Record.HandedOverAt != nil
		h.Spec.Record.HandedOverAt = nil
		return was
	})
	if err != nil {
		return err
	}
	v.Host = h
	return nil
}
