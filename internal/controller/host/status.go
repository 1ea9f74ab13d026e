package host

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// patchStatus derives phase and conditions, and writes the status if it changed.
func (s *scope) patchStatus(ctx context.Context) error {
	if s.deleted {
		return nil
	}
	h, before := s.host, s.stored
	s.deriveStatus()
	if equality.Semantic.DeepEqual(before, h.Status) {
		return nil
	}
	base := h.DeepCopy()
	base.Status = before
	written := h.DeepCopy()
	if err := s.Client.Status().Patch(ctx, written, client.MergeFrom(base)); err != nil {
		return client.IgnoreNotFound(err)
	}
	// The answer is the whole object as it is now: its version must not be used
	// with a spec that was read before.
	s.host, s.stored = written, *written.Status.DeepCopy()
	s.statuses.Set(h.Name, ownStatus{base.ResourceVersion, written.ResourceVersion})
	s.known.wrote(written)
	s.announce(ctx, before)
	return nil
}

// deriveStatus computes the phase, and the conditions that follow from the host and
// what was observed.
func (s *scope) deriveStatus() {
	h := s.host
	h.Status.Phase = host.Phase(h, s.observed)
	derived := host.Conditions(h, s.observed)
	for _, kind := range []string{host.RetiredCondition, infrav1.KeptOutCondition} { // there only while they hold
		if meta.FindStatusCondition(derived, kind) == nil {
			meta.RemoveStatusCondition(&h.Status.Conditions, kind)
		}
	}
	for _, c := range derived {
		c.LastTransitionTime = metav1.NewTime(s.now())
		meta.SetStatusCondition(&h.Status.Conditions, c)
	}
}

// announce tells of a change of phase, and of a wipe that fails or is refused, once.
func (s *scope) announce(ctx context.Context, before infrav1.ScalewayAppleSiliconHostStatus) {
	if before.Phase != s.host.Status.Phase {
		s.announcePhase(ctx, before.Phase)
	}
	was, is := reasonOf(before, infrav1.WipedCondition), s.reasonOf(infrav1.WipedCondition)
	switch {
	case was == is:
	case is == infrav1.ReasonReinstallFailed && !s.failureAnnounced:
		s.event(corev1.EventTypeWarning, is, "the vendor shows the server in error after its reinstall was asked for")
		ctrl.LoggerFrom(ctx).Info("The reinstall failed", "server", s.host.Status.Server.Name)
	case is == infrav1.ReasonWipeRejected:
		s.event(corev1.EventTypeWarning, is, host.Refused(s.observed.Refusal))
	}
}

func (s *scope) announcePhase(ctx context.Context, was infrav1.HostPhase) {
	h, available := s.host, ""
	if c := meta.FindStatusCondition(h.Status.Conditions, infrav1.AvailableCondition); c != nil {
		available = c.Message
	}
	ctrl.LoggerFrom(ctx).Info("Host changed phase", "from", was, "to", h.Status.Phase, "server", h.Status.Server.Name)
	switch h.Status.Phase {
	case infrav1.HostStranded:
		s.event(corev1.EventTypeWarning, "StrandedHost", available)
	case infrav1.HostRetiring:
		s.event(corev1.EventTypeNormal, infrav1.ReasonRetiring, available)
	case infrav1.HostQuarantined:
		s.event(corev1.EventTypeWarning, infrav1.ReasonQuarantined, available)
	case infrav1.HostHandedOver:
		s.event(corev1.EventTypeNormal, infrav1.ReasonHandedOver, "the host is another management cluster's; nothing is done to it here")
	case infrav1.HostGone:
		s.event(corev1.EventTypeWarning, "Gone", "the vendor no longer has this server")
	}
}
