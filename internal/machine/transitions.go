package machine

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Transition is one event.
type Transition struct{ Kind, Reason, Message string }

// Transitions compares two states; every reason that is told of is named here.
func Transitions(before, after *infrav1.ScalewayAppleSiliconMachine) []Transition {
	const normal, warning = corev1.EventTypeNormal, corev1.EventTypeWarning
	var out []Transition
	if was, is := before.Status.Applied.Agent, after.Status.Applied.Agent; was != "" && was != is {
		out = append(out, Transition{Kind: normal, Reason: infrav1.ReasonAgentUpdated, Message: fmt.Sprintf("the agent on host %s is build %.12s, after %.12s", after.Status.HostName, is, was)})
	}
	for _, c := range []struct {
		kind    string
		reasons map[string]string
	}{
		{infrav1.HostClaimedCondition, map[string]string{
			ReasonClaimed: normal, infrav1.ReasonNoAvailableHost: warning, infrav1.ReasonNoHostInFailureDomain: warning,
			infrav1.ReasonClaimLost: warning, infrav1.ReasonUnknownProfile: warning, infrav1.ReasonNoAdoptPoolPrefix: warning,
			ReasonNameInPool: warning, ReasonNameTooLong: warning, infrav1.ReasonPoolPrefixNotAllowed: warning, ReasonHostSelector: warning, infrav1.ReasonServerGone: warning, infrav1.ReasonOrdering: normal,
			infrav1.ReasonOutOfStock: warning, infrav1.ReasonQuotaExceeded: warning, infrav1.ReasonOrderRejected: warning, infrav1.ReasonOrderLimitReached: warning, infrav1.ReasonDifferentCluster: warning,
		}},
		{infrav1.BootstrappedCondition, map[string]string{
			infrav1.BootstrappedCondition: normal, infrav1.ReasonBootstrapFailed: warning, infrav1.ReasonHostKeyMismatch: warning,
			infrav1.ReasonMissingSudoPassword: warning, infrav1.ReasonCredentialsSealed: warning, infrav1.ReasonEndpointUnknown: warning, infrav1.ReasonDifferentCluster: warning,
			infrav1.ReasonNotWiped: warning, infrav1.ReasonRebootingForRecovery: warning, infrav1.ReasonReturnedToPool: warning,
			infrav1.ReasonWrongHardware: warning, infrav1.ReasonFileVault: warning, infrav1.ReasonInvalidProfile: warning, infrav1.ReasonUnknownProfile: warning,
			infrav1.ReasonReinstalling: warning, infrav1.ReasonBootstrapExhausted: warning,
		}},
		{infrav1.NodeReadyCondition, map[string]string{
			infrav1.NodeReadyCondition: normal, infrav1.ReasonNodeUnreachable: warning, infrav1.ReasonNodeMissing: warning, infrav1.ReasonProviderIDMismatch: warning,
		}},
		{infrav1.UpToDateCondition, map[string]string{
			infrav1.ReasonDrifted: normal, infrav1.ReasonUpdateFailed: warning, infrav1.ReasonHeld: normal, infrav1.ReasonInvalidProfile: warning,
		}},
		{infrav1.SlotsHealthyCondition, map[string]string{
			infrav1.ReasonSlotsLeaked: warning, infrav1.ReasonRebootingForSlots: normal, infrav1.ReasonSlotsStillLeaked: warning,
			infrav1.ReasonSlotsUsable: normal,
		}},
		{infrav1.ReleasedCondition, map[string]string{infrav1.ReasonReleaseBlocked: warning, infrav1.ReasonDraining: normal, ReasonNoPolicy: warning}},
	} {
		now := conditions.Get(after, c.kind)
		if now == nil || now.Reason == conditions.GetReason(before, c.kind) {
			continue
		}
		if eventType, told := c.reasons[now.Reason]; told {
			out = append(out, Transition{Kind: eventType, Reason: now.Reason, Message: now.Message})
		}
	}
	return out
}
