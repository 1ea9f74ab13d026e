package machine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Words for status.phase.
const (
	PhasePending     = "Pending"
	PhaseClaimed     = "Claimed"
	PhaseBootstrap   = "Bootstrapping"
	PhaseJoining     = "Joining"
	PhaseRunning     = "Running"
	PhaseNotReady    = "NotReady"
	PhaseUnreachable = "Unreachable"
	PhaseLost        = "Lost"
	PhaseReleasing   = "Releasing"
)

// Summary is Ready: the first thing in the Machine's life that is not as it
// should be, deletion included.
func Summary(m *infrav1.ScalewayAppleSiliconMachine) Finding {
	kinds := []string{infrav1.HostClaimedCondition, infrav1.BootstrappedCondition, infrav1.NodeReadyCondition}
	if !m.DeletionTimestamp.IsZero() {
		kinds = []string{infrav1.ReleasedCondition}
	}
	for _, kind := range kinds {
		c := conditions.Get(m, kind)
		if c == nil {
			return Unknown(infrav1.ReasonWaitingForCluster, "%s is not known yet", kind)
		}
		if c.Status != metav1.ConditionTrue || !m.DeletionTimestamp.IsZero() {
			return Finding{Status: metav1.ConditionFalse, Reason: c.Reason, Message: c.Message}
		}
	}
	return True(infrav1.ReadyCondition)
}

// Phase is the word of status.phase.
func Phase(m *infrav1.ScalewayAppleSiliconMachine) string {
	switch {
	case !m.DeletionTimestamp.IsZero():
		return PhaseReleasing
	case conditions.IsTrue(m, infrav1.ReadyCondition):
		return PhaseRunning
	case lostHost(m):
		return PhaseLost
	case m.Spec.ProviderID != "" && m.Spec.HostRef != nil: // without, it waits to be taken over
		return joinedPhase(m)
	case conditions.GetReason(m, infrav1.BootstrappedCondition) == infrav1.ReasonRunning:
		return PhaseBootstrap
	case conditions.IsTrue(m, infrav1.HostClaimedCondition):
		return PhaseClaimed
	}
	return PhasePending
}

// joinedPhase is how a Machine does whose Mac is set up, and which is not Ready as a
// whole. One whose Node was there never joins again in words.
func joinedPhase(m *infrav1.ScalewayAppleSiliconMachine) string {
	switch conditions.GetReason(m, infrav1.NodeReadyCondition) {
	case infrav1.ReasonNodeUnreachable:
		return PhaseUnreachable
	case infrav1.NodeReadyCondition, infrav1.ReasonNodeNotReady, infrav1.ReasonNodeMissing, infrav1.ReasonProviderIDMismatch:
		return PhaseNotReady
	}
	switch m.Status.Phase {
	case PhaseRunning, PhaseNotReady, PhaseUnreachable: // what is known of its host was lost for a moment
		return PhaseNotReady
	}
	return PhaseJoining
}

// lostHost reports that the Machine was provisioned and has no Mac any more.
func lostHost(m *infrav1.ScalewayAppleSiliconMachine) bool {
	switch conditions.GetReason(m, infrav1.HostClaimedCondition) {
	case infrav1.ReasonClaimLost, infrav1.ReasonClaimConflict, infrav1.ReasonServerGone:
		return m.Spec.ProviderID != ""
	}
	return false
}

// ReasonClaimed is HostClaimed's reason when it is True.
const ReasonClaimed = "Claimed"
