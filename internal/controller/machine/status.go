package machine

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
)

// writeStatus derives the status from what the phases found and writes it, if it
// differs, in one patch; then it tells of the transitions.
func (r *Reconciler) writeStatus(ctx context.Context, v *visit) error {
	before := v.Machine.DeepCopy()
	derive(v)
	if equality.Semantic.DeepEqual(before.Status, v.Machine.Status) {
		return nil
	}
	after := v.Machine.DeepCopy()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, v.Machine, patch); err != nil {
		return fmt.Errorf("recording the status: %w", err)
	}
	r.emitTransitions(ctx, before, after)
	return nil
}

// forgetConsumed forgets the jobs whose outcome is written down now.
func (r *Reconciler) forgetConsumed(v *visit) {
	for _, pool := range v.consumed {
		pool.Forget(client.ObjectKeyFromObject(v.Machine))
	}
}

// derive sets the whole status.
func derive(v *visit) {
	status := &v.Machine.Status
	for _, c := range []struct {
		kind string
		machine.Finding
	}{
		{infrav1.HostClaimedCondition, v.claimed},
		{infrav1.BootstrappedCondition, v.bootstrapped},
		{infrav1.NodeReadyCondition, v.joined},
		{infrav1.ReleasedCondition, v.released},
		{infrav1.SlotsHealthyCondition, v.slots},
	} {
		if c.Reason != "" {
			set(v.Machine, c.kind, c.Finding)
		}
	}
	deriveUpdate(v)
	// A copied providerID provisions nothing: core would take the other's Node for this
	// Machine's, and delete it with this Machine.
	if v.Machine.Spec.ProviderID != "" && v.Host != nil {
		status.Initialization.Provisioned = ptr.To(true)
	}
	deriveHost(v)
	deriveBootstrap(v)
	derivePolicy(v)
	set(v.Machine, infrav1.ReadyCondition, machine.Summary(v.Machine))
	status.Phase = machine.Phase(v.Machine)
}

// deriveUpdate says what the Mac runs, and whether that is what its profile wants.
func deriveUpdate(v *visit) {
	status := &v.Machine.Status
	if v.applied != nil {
		status.Applied = *v.applied
	}
	if v.update != nil {
		status.Update = *v.update
	}
	if v.drift != nil {
		status.Drift = *v.drift
	}
	if v.Machine.Spec.ProviderID == "" || v.revision == "" && v.upToDate.Reason == "" {
		return
	}
	if v.upToDate.Reason == "" {
		v.upToDate = machine.Freshness(v.Machine, v.revision)
	}
	set(v.Machine, infrav1.UpToDateCondition, v.upToDate)
}

func set(m *infrav1.ScalewayAppleSiliconMachine, kind string, f machine.Finding) {
	conditions.Set(m, metav1.Condition{Type: kind, Status: f.Status, Reason: f.Reason, Message: f.Message})
}

func deriveHost(v *visit) {
	status := &v.Machine.Status
	if v.Host == nil {
		if _, legacy := host.LegacyServer(v.Machine); v.Machine.Spec.HostRef == nil && !legacy {
			status.HostName, status.ServerID, status.FailureDomain, status.Addresses = "", "", "", nil
		}
		return
	}
	status.HostName = v.Host.Name
	status.FailureDomain = v.Host.Spec.Zone
	if v.Machine.DeletionTimestamp.IsZero() {
		// An emptied serverID is a person's word when the Machine is deleted.
		status.ServerID = v.Host.Spec.ServerID
	}
	if ip := v.Host.Status.Server.IP; ip != "" {
		status.Addresses = []clusterv1.MachineAddress{
			{Type: clusterv1.MachineHostName, Address: v.Machine.Name},
			{Type: clusterv1.MachineExternalIP, Address: ip},
		}
	}
}

func deriveBootstrap(v *visit) {
	status := &v.Machine.Status
	if v.Machine.Spec.HostRef == nil {
		status.Bootstrap = infrav1.BootstrapStatus{} // it told of a host that is no longer ours
		return
	}
	if v.Host == nil || v.Host.Spec.Record.Bootstrap.ClaimToken != v.Token() {
		return
	}
	status.Bootstrap.Attempts = v.Host.Spec.Record.Bootstrap.Attempts
	status.Bootstrap.RebootIssued = v.Host.Spec.Record.Bootstrap.RebootIssued
	switch {
	case v.failure != nil:
		status.Bootstrap.LastError = &infrav1.StepError{Step: v.failure.Step, Class: string(v.failure.Class)}
	case v.bootstrapped.Status == metav1.ConditionTrue:
		status.Bootstrap.LastError = nil
	}
}

// derivePolicy warns of an annotation that is no policy before it matters.
func derivePolicy(v *visit) {
	if !v.Machine.DeletionTimestamp.IsZero() {
		return
	}
	held := v.Host != nil && v.Host.Spec.Record.Ordered
	policy, wrong := host.ReleasePolicy(v.Machine, held || machine.OrdersServer(v.Machine))
	if wrong != "" {
		set(v.Machine, infrav1.ReleasedCondition, machine.NoPolicy(wrong, policy))
		return
	}
	if conditions.GetReason(v.Machine, infrav1.ReleasedCondition) == machine.ReasonNoPolicy {
		conditions.Delete(v.Machine, infrav1.ReleasedCondition)
	}
}

// emitTransitions emits an event and a log line for each transition, and for nothing else.
func (r *Reconciler) emitTransitions(ctx context.Context, before, after *infrav1.ScalewayAppleSiliconMachine) {
	for _, t := range machine.Transitions(before, after) {
		r.machines.event(after, t.Kind, t.Reason, t.Message)
		ctrl.LoggerFrom(ctx).Info(t.Reason, "host", after.Status.HostName, "serverID", after.Status.ServerID, "message", t.Message)
		switch t.Reason {
		case infrav1.NodeReadyCondition:
			r.metrics.nodeReady(waitedFor(before, r.Clock.Now()))
		case infrav1.ReasonClaimLost:
			r.metrics.claim(claimLost) // once it is written: a pass that fails comes again
		}
	}
}

// vendorWaits are the reasons of conditions that wait for what the vendor shows or
// does: while its lists fail, nothing of that comes.
func vendorWaits() []string {
	return []string{
		infrav1.ReasonWaitingForHost, infrav1.ReasonNoAvailableHost, infrav1.ReasonNoHostInFailureDomain, infrav1.ReasonClaiming,
		infrav1.ReasonReleasing, infrav1.ReasonReleaseBlocked, infrav1.ReasonOrdering, infrav1.ReasonReinstalling,
		infrav1.ReasonCredentialsSealed, infrav1.ReasonMissingSudoPassword, infrav1.ReasonRebootingForRecovery,
	}
}

// addZoneReport adds to what waits for the vendor since when its zone cannot be listed, and
// why. It looks again every waitPoll: the lists wake no Machine when they work again.
func (r *Reconciler) addZoneReport(v *visit) ctrl.Result {
	if r.Zone == nil {
		return ctrl.Result{}
	}
	var waits []*machine.Finding
	for _, f := range []*machine.Finding{&v.claimed, &v.bootstrapped, &v.released} {
		if f.Status != metav1.ConditionTrue && slices.Contains(vendorWaits(), f.Reason) {
			waits = append(waits, f)
		}
	}
	zone := zoneOf(v)
	if len(waits) == 0 || zone == "" {
		return ctrl.Result{}
	}
	report, _ := r.Zone(zone)
	if why := report.Unreadable(); why != "" {
		for _, f := range waits {
			f.Message += "; zone " + zone + ": " + why
		}
	}
	return ctrl.Result{RequeueAfter: waitPoll}
}

// zoneOf is where the Machine's Mac is, or is to be; empty: nobody knows yet.
func zoneOf(v *visit) string {
	if v.Host != nil {
		return v.Host.Spec.Zone
	}
	return v.Zone()
}

// cleanConditions removes conditions that the API no longer takes, as the first
// system wrote them: without a reason. As long as they are there no status can be
// written.
func (r *Reconciler) cleanConditions(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) error {
	var kept []metav1.Condition
	for _, c := range m.Status.Conditions {
		if c.Reason != "" {
			kept = append(kept, c)
		}
	}
	if len(kept) == len(m.Status.Conditions) {
		return nil
	}
	base := m.DeepCopy()
	m.Status.Conditions = kept
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, m, patch); err != nil {
		return fmt.Errorf("removing conditions of another system: %w", err)
	}
	return nil
}
