package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// Words for status.phase.
const (
	phasePending   = "Pending"
	phaseClaimed   = "Claimed"
	phaseBootstrap = "Bootstrapping"
	phaseJoining   = "Joining"
	phaseRunning   = "Running"
	phaseLost      = "Lost"
	phaseReleasing = "Releasing"
)

// record derives the status from what the phases found and writes it, if it
// differs, in one patch; then it tells of the transitions.
func (r *Reconciler) record(ctx context.Context, v *visit) error {
	before := v.machine.DeepCopy()
	derive(v)
	if equality.Semantic.DeepEqual(before.Status, v.machine.Status) {
		return nil
	}
	after := v.machine.DeepCopy()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, v.machine, patch); err != nil {
		return fmt.Errorf("recording the status: %w", err)
	}
	r.tell(ctx, before, after)
	return nil
}

// derive sets the whole status.
func derive(v *visit) {
	status := &v.machine.Status
	for _, c := range []struct {
		kind string
		finding
	}{
		{infrav1.HostClaimedCondition, v.claimed},
		{infrav1.BootstrappedCondition, v.bootstrapped},
		{infrav1.NodeReadyCondition, v.joined},
		{infrav1.ReleasedCondition, v.released},
		{infrav1.SlotsHealthyCondition, v.slots},
	} {
		if c.reason != "" {
			set(v.machine, c.kind, c.finding)
		}
	}
	deriveUpdate(v)
	// A copied providerID provisions nothing: core would take the other's Node for this
	// Machine's, and delete it with this Machine.
	if v.machine.Spec.ProviderID != "" && v.host != nil {
		status.Initialization.Provisioned = ptr.To(true)
	}
	deriveHost(v)
	deriveBootstrap(v)
	derivePolicy(v)
	set(v.machine, infrav1.ReadyCondition, summary(v.machine))
	status.Phase = phase(v.machine)
}

// deriveUpdate says what the Mac runs, and whether that is what its profile wants.
func deriveUpdate(v *visit) {
	status := &v.machine.Status
	if v.applied != nil {
		status.Applied = *v.applied
	}
	if v.update != nil {
		status.Update = *v.update
	}
	if v.drift != nil {
		status.Drift = *v.drift
	}
	if v.machine.Spec.ProviderID == "" || v.revision == "" && v.upToDate.reason == "" {
		return
	}
	if v.upToDate.reason == "" {
		v.upToDate = freshness(v.machine, v.revision)
	}
	set(v.machine, infrav1.UpToDateCondition, v.upToDate)
}

func set(m *infrav1.ScalewayAppleSiliconMachine, kind string, f finding) {
	conditions.Set(m, metav1.Condition{Type: kind, Status: f.status, Reason: f.reason, Message: f.message})
}

func deriveHost(v *visit) {
	status := &v.machine.Status
	if v.host == nil {
		if _, legacy := host.LegacyServer(v.machine); v.machine.Spec.HostRef == nil && !legacy {
			status.HostName, status.ServerID, status.FailureDomain, status.Addresses = "", "", "", nil
		}
		return
	}
	status.HostName = v.host.Name
	status.FailureDomain = v.host.Spec.Zone
	if v.machine.DeletionTimestamp.IsZero() {
		// An emptied serverID is a person's word when the Machine is deleted.
		status.ServerID = v.host.Spec.ServerID
	}
	if ip := v.host.Status.Server.IP; ip != "" {
		status.Addresses = []clusterv1.MachineAddress{
			{Type: clusterv1.MachineHostName, Address: v.machine.Name},
			{Type: clusterv1.MachineExternalIP, Address: ip},
		}
	}
}

func deriveBootstrap(v *visit) {
	status := &v.machine.Status
	if v.machine.Spec.HostRef == nil {
		status.Bootstrap = infrav1.BootstrapStatus{} // it told of a host that is no longer ours
		return
	}
	if v.host == nil || v.host.Spec.Record.Bootstrap.ClaimToken != v.token() {
		return
	}
	status.Bootstrap.Attempts = v.host.Spec.Record.Bootstrap.Attempts
	status.Bootstrap.RebootIssued = v.host.Spec.Record.Bootstrap.RebootIssued
	switch {
	case v.failure != nil:
		status.Bootstrap.LastError = &infrav1.StepError{Step: v.failure.Step, Class: string(v.failure.Class)}
	case v.bootstrapped.status == metav1.ConditionTrue:
		status.Bootstrap.LastError = nil
	}
}

// reasonNoPolicy is Released's reason while the Machine lives and its annotation
// names no release policy.
const reasonNoPolicy = "UnknownReleasePolicy"

func noPolicy(value string, instead infrav1.ReleasePolicy) finding {
	return no(reasonNoPolicy, "annotation %s is %.64q; known: terminate, recycle, detach; until then %s holds", infrav1.ReleasePolicyAnnotation, value, instead)
}

// derivePolicy warns of an annotation that is no policy before it matters.
func derivePolicy(v *visit) {
	if !v.machine.DeletionTimestamp.IsZero() {
		return
	}
	held := v.host != nil && v.host.Spec.Record.Ordered
	policy, wrong := host.ExitPolicy(v.machine, held || ordered(v.machine))
	if wrong != "" {
		set(v.machine, infrav1.ReleasedCondition, noPolicy(wrong, policy))
		return
	}
	if conditions.GetReason(v.machine, infrav1.ReleasedCondition) == reasonNoPolicy {
		conditions.Delete(v.machine, infrav1.ReleasedCondition)
	}
}

// summary is Ready: the first thing in the Machine's life that is not as it
// should be, deletion included.
func summary(m *infrav1.ScalewayAppleSiliconMachine) finding {
	kinds := []string{infrav1.HostClaimedCondition, infrav1.BootstrappedCondition, infrav1.NodeReadyCondition}
	if !m.DeletionTimestamp.IsZero() {
		kinds = []string{infrav1.ReleasedCondition}
	}
	for _, kind := range kinds {
		c := conditions.Get(m, kind)
		if c == nil {
			return unknown(infrav1.ReasonWaitingForCluster, "%s is not known yet", kind)
		}
		if c.Status != metav1.ConditionTrue || !m.DeletionTimestamp.IsZero() {
			return finding{status: metav1.ConditionFalse, reason: c.Reason, message: c.Message}
		}
	}
	return yes(infrav1.ReadyCondition)
}

func phase(m *infrav1.ScalewayAppleSiliconMachine) string {
	switch {
	case !m.DeletionTimestamp.IsZero():
		return phaseReleasing
	case conditions.IsTrue(m, infrav1.ReadyCondition):
		return phaseRunning
	case lostHost(m):
		return phaseLost
	case m.Spec.ProviderID != "" && m.Spec.HostRef != nil: // without, it waits to be taken over
		return phaseJoining
	case conditions.GetReason(m, infrav1.BootstrappedCondition) == infrav1.ReasonRunning:
		return phaseBootstrap
	case conditions.IsTrue(m, infrav1.HostClaimedCondition):
		return phaseClaimed
	}
	return phasePending
}

// lostHost reports that the Machine was provisioned and has no Mac any more.
func lostHost(m *infrav1.ScalewayAppleSiliconMachine) bool {
	switch conditions.GetReason(m, infrav1.HostClaimedCondition) {
	case infrav1.ReasonClaimLost, infrav1.ReasonClaimConflict, infrav1.ReasonServerGone:
		return m.Spec.ProviderID != ""
	}
	return false
}

// transition is one event.
type transition struct{ kind, reason, message string }

// tell emits an event and a log line for each transition, and for nothing else.
func (r *Reconciler) tell(ctx context.Context, before, after *infrav1.ScalewayAppleSiliconMachine) {
	for _, t := range transitions(before, after) {
		r.event(after, t)
		ctrl.LoggerFrom(ctx).Info(t.reason, "host", after.Status.HostName, "serverID", after.Status.ServerID, "message", t.message)
		if t.reason == infrav1.NodeReadyCondition {
			r.metrics.nodeReady(r.Clock.Since(after.CreationTimestamp.Time))
		}
	}
}

func (r *Reconciler) event(m *infrav1.ScalewayAppleSiliconMachine, t transition) {
	note := t.message
	if note == "" {
		note = t.reason
	}
	r.Recorder.Eventf(m, nil, t.kind, t.reason, "Reconcile", "%s", note)
}

// transitions compares two states; every reason that is told of is named here.
func transitions(before, after *infrav1.ScalewayAppleSiliconMachine) []transition {
	const normal, warning = corev1.EventTypeNormal, corev1.EventTypeWarning
	var out []transition
	if was, is := before.Status.Applied.Agent, after.Status.Applied.Agent; was != "" && was != is {
		out = append(out, transition{kind: normal, reason: infrav1.ReasonAgentUpdated, message: fmt.Sprintf("the agent on host %s is build %.12s, after %.12s", after.Status.HostName, is, was)})
	}
	for _, c := range []struct {
		kind    string
		reasons map[string]string
	}{
		{infrav1.HostClaimedCondition, map[string]string{
			reasonClaimed: normal, infrav1.ReasonNoAvailableHost: warning, infrav1.ReasonNoHostInFailureDomain: warning,
			infrav1.ReasonClaimLost: warning, infrav1.ReasonUnknownProfile: warning, infrav1.ReasonNoAdoptPoolPrefix: warning,
			reasonNameInPool: warning, reasonNameTooLong: warning, infrav1.ReasonPoolPrefixNotAllowed: warning, reasonHostSelector: warning, infrav1.ReasonServerGone: warning, infrav1.ReasonOrdering: normal,
			infrav1.ReasonOutOfStock: warning, infrav1.ReasonQuotaExceeded: warning, infrav1.ReasonOrderRejected: warning, infrav1.ReasonOrderLimitReached: warning,
		}},
		{infrav1.BootstrappedCondition, map[string]string{
			infrav1.BootstrappedCondition: normal, infrav1.ReasonBootstrapFailed: warning, infrav1.ReasonHostKeyMismatch: warning,
			infrav1.ReasonMissingSudoPassword: warning, infrav1.ReasonCredentialsSealed: warning, infrav1.ReasonEndpointUnknown: warning,
			infrav1.ReasonNotWiped: warning, infrav1.ReasonRebootingForRecovery: warning, infrav1.ReasonReturnedToPool: warning,
			infrav1.ReasonWrongHardware: warning, infrav1.ReasonFileVault: warning, infrav1.ReasonInvalidProfile: warning,
			infrav1.ReasonReinstalling: warning, infrav1.ReasonBootstrapExhausted: warning,
		}},
		{infrav1.NodeReadyCondition, map[string]string{
			infrav1.NodeReadyCondition: normal, infrav1.ReasonNodeMissing: warning, infrav1.ReasonProviderIDMismatch: warning,
		}},
		{infrav1.UpToDateCondition, map[string]string{
			infrav1.ReasonDrifted: normal, infrav1.ReasonUpdateFailed: warning, infrav1.ReasonHeld: normal, infrav1.ReasonInvalidProfile: warning,
		}},
		{infrav1.SlotsHealthyCondition, map[string]string{
			infrav1.ReasonSlotsLeaked: warning, infrav1.ReasonRebootingForSlots: normal, infrav1.ReasonSlotsStillLeaked: warning,
			infrav1.ReasonSlotsUsable: normal,
		}},
		{infrav1.ReleasedCondition, map[string]string{infrav1.ReasonReleaseBlocked: warning, infrav1.ReasonDraining: normal, reasonNoPolicy: warning}},
	} {
		now := conditions.Get(after, c.kind)
		if now == nil || now.Reason == conditions.GetReason(before, c.kind) {
			continue
		}
		if eventType, told := c.reasons[now.Reason]; told {
			out = append(out, transition{kind: eventType, reason: now.Reason, message: now.Message})
		}
	}
	return out
}
