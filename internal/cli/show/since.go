package show

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// A condition tells since when it is as it is, True or False, and not since when it has its
// reason: a Mac may wait for hours for a change that fails in the end. What follows is when
// the reason came up, where an object recorded that; nil where none did.

// MachineBegan is about a condition of a Machine.
func MachineBegan(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition) *time.Time {
	switch {
	case c.Type == infrav1.BootstrappedCondition && (c.Reason == infrav1.ReasonBootstrapFailed || c.Reason == infrav1.ReasonSSHUnreachable):
		h := hostOf(s, m)
		if h != nil && m.Spec.HostRef != nil && h.Spec.Record.Bootstrap.ClaimToken == m.Spec.HostRef.ClaimToken {
			return during(c, h.Spec.Record.Bootstrap.FirstFailedAt)
		}
	case c.Reason == infrav1.ReasonUpdateFailed && m.Status.Update.Failures == 1: // of more, the first is not recorded
		return during(c, m.Status.Update.LastFailedAt)
	}
	return nil
}

// HostBegan is about a condition of a host.
func HostBegan(h *infrav1.ScalewayAppleSiliconHost, c metav1.Condition) *time.Time {
	if c.Type != infrav1.WipedCondition {
		return nil
	}
	switch c.Reason {
	case infrav1.ReasonWipeRequested:
		return during(c, seconds(h.Spec.Record.Wipe.RequestedAt))
	case infrav1.ReasonReinstalling:
		return during(c, seconds(h.Spec.Record.Wipe.StartedAt))
	}
	return nil
}

// StepBegan is about the condition of a remediation, where it tells of the step that is taken.
func StepBegan(r *infrav1.ScalewayAppleSiliconRemediation, c metav1.Condition) *time.Time {
	if c.Reason != r.Status.Step {
		return nil
	}
	return during(c, seconds(r.Status.StepStartedAt))
}

func seconds(at *metav1.MicroTime) *metav1.Time {
	if at == nil {
		return nil
	}
	return &metav1.Time{Time: at.Time}
}

// during is a time at which the condition was as it is now: an older one is of an earlier trouble.
func during(c metav1.Condition, at *metav1.Time) *time.Time {
	if at == nil || at.Before(&c.LastTransitionTime) {
		return nil
	}
	return &at.Time
}
