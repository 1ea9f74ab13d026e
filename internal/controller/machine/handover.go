package machine

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// moving reports that clusterctl is about to delete this copy of the Machine,
// because another management cluster has it now.
func moving(m *infrav1.ScalewayAppleSiliconMachine) bool {
	_, is := m.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return is
}

// handOver notes on the host that it goes with its Machine, and touches nothing:
// the other management cluster works on the Mac already.
func (r *Reconciler) handOver(ctx context.Context, v *visit) error {
	if v.machine.Spec.HostRef == nil {
		return nil
	}
	written := false
	h, err := r.amendHost(ctx, v.machine.Spec.HostRef.Name, host.ClaimOf(v.machine), func(h *host.Host) bool {
		written = h.Spec.Record.HandedOverAt == nil && h.Spec.Release == nil
		if written {
			host.HandOver(h, r.Clock.Now())
		}
		return written
	})
	if apierrors.IsNotFound(err) || errors.Is(err, errClaimGone) {
		return nil
	}
	if err != nil || !written {
		return err
	}
	r.event(v.machine, transition{corev1.EventTypeNormal, infrav1.ReasonHandedOver, "host " + h.Name + " goes to another management cluster with this Machine"})
	ctrl.LoggerFrom(ctx).Info("Host handed over", "host", h.Name, "serverID", h.Spec.ServerID)
	return nil
}

// stayHere takes a hand-over back: its Machine lives on here, neither paused nor
// being moved.
func (r *Reconciler) stayHere(ctx context.Context, v *visit) error {
	if v.host.Spec.Record.HandedOverAt == nil {
		return nil
	}
	h, err := r.amendHost(ctx, v.host.Name, host.ClaimOf(v.machine), func(h *host.Host) bool {
		was := h.Spec.Record.HandedOverAt != nil
		h.Spec.Record.HandedOverAt = nil
		return was
	})
	if err != nil {
		return err
	}
	v.host = h
	return nil
}
