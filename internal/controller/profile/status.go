package profile

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/rollout"
)

// record writes the status if it differs, and tells when the rollout halts.
func (r *Reconciler) record(ctx context.Context, profile *infrav1.MacNodeProfile, s survey, decision rollout.Decision) error {
	asked, err := r.wantedMacs(ctx, profile, s)
	if err != nil {
		return err
	}
	before := profile.DeepCopy()
	profile.Status.ObservedGeneration = profile.Generation
	profile.Status.Revision = s.revision
	profile.Status.Machines = int32(s.all)
	profile.Status.Available = s.count(available)
	profile.Status.Updated = s.count(s.updated)
	for kind, f := range map[string]machine.Finding{
		infrav1.ReadyCondition:     r.ready(profile, s, decision, asked),
		infrav1.RolledOutCondition: rolledOut(profile, s, decision),
		infrav1.HaltedCondition:    halted(decision),
	} {
		conditions.Set(profile, metav1.Condition{Type: kind, Status: f.Status, Reason: f.Reason, Message: f.Message, ObservedGeneration: profile.Generation})
	}
	if s.all > 0 && conditions.IsTrue(profile, infrav1.RolledOutCondition) {
		if err := remember(profile, metav1.NewTime(r.Clock.Now())); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(before.Status, profile.Status) {
		return nil
	}
	after := profile.DeepCopy()
	if err := r.Client.Status().Patch(ctx, profile, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("recording the status of MacNodeProfile %s: %w", profile.Name, err)
	}
	r.tell(ctx, before, after)
	return nil
}

func available(m mac) bool { return !m.seen.ReadySince.IsZero() }

// updated reports a Mac that is as the profile wants it.
func (s survey) updated(m mac) bool { return m.seen.Applied == s.revision && !m.seen.Drifted }

func (r *Reconciler) tell(ctx context.Context, before, after *infrav1.MacNodeProfile) {
	for _, kind := range []string{infrav1.RolledOutCondition, infrav1.HaltedCondition} {
		was, now := conditions.Get(before, kind), conditions.Get(after, kind)
		if was != nil && was.Status == now.Status && was.Reason == now.Reason {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Rollout", "condition", kind, "status", now.Status, "reason", now.Reason, "message", now.Message, "revision", after.Status.Revision)
		if kind == infrav1.HaltedCondition && now.Status == metav1.ConditionTrue {
			r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, infrav1.ReasonRolloutHalted, "Reconcile", "%s", now.Message)
		}
	}
}

// ready says whether all Macs that are asked for are there and as they should be,
// with the agent that is waited for.
func (r *Reconciler) ready(profile *infrav1.MacNodeProfile, s survey, decision rollout.Decision, asked demand) machine.Finding {
	ready := s.count(func(m mac) bool { return available(m) && s.updated(m) })
	version, replicas := profile.Spec.AgentVersion, asked.replicas
	switch {
	case s.invalid != nil:
		return machine.False(infrav1.ReasonInvalidProfile, "%s", s.invalid)
	case version != "" && version != r.Agent.Version:
		return machine.False(infrav1.ReasonAgentVersionAwaited, "agent %s is waited for; this manager gives Macs %s", version, r.Agent.Version)
	case s.upkeep.failed() != "":
		return machine.False(infrav1.ReasonNodeNotKept, "%s", s.upkeep.failed())
	case asked.byNobody:
		return machine.False(infrav1.ReasonMacsMissing, "no MachineDeployment names this profile yet")
	case ready >= replicas:
		return machine.True(infrav1.ReadyCondition)
	case decision.Halted != "":
		return machine.False(infrav1.ReasonRolloutHalted, "%s", halted(decision).Message)
	case s.count(s.updated) < int32(len(s.macs)):
		return machine.False(infrav1.ReasonRollingOut, "%d of %d Macs are available at revision %.12s", ready, replicas, s.revision)
	}
	return machine.False(infrav1.ReasonMacsMissing, "%d of %d Macs are available at revision %.12s", ready, replicas, s.revision)
}

// rolledOut says whether every Mac of the profile is done. Those that are still
// being set up are not; that is no matter of turns, so neither a pause nor Held is
// said of them.
func rolledOut(profile *infrav1.MacNodeProfile, s survey, decision rollout.Decision) machine.Finding {
	done, setup := decision.States[rollout.Updated], s.all-len(s.macs)
	left := len(s.macs) - done
	switch {
	case s.invalid != nil:
		return machine.False(infrav1.ReasonInvalidProfile, "%s", s.invalid)
	case left+setup > 0 && decision.Halted != "":
		return machine.False(infrav1.ReasonRolloutHalted, "%s", halted(decision).Message)
	case s.upkeep.failed() != "":
		return machine.False(infrav1.ReasonNodeNotKept, "%s", s.upkeep.failed())
	case left+setup == 0:
		return machine.True(infrav1.RolledOutCondition)
	case profile.Spec.Rollout.Paused && left > 0:
		return machine.False(infrav1.ReasonRolloutPaused, "spec.rollout.paused: %s", macs(left, "is not yet as it should be", "are not yet as they should be"))
	case decision.States[rollout.Held] == left && setup == 0:
		return machine.False(infrav1.ReasonHeld, "%s", macs(left, "cannot be changed for now; its condition UpToDate says why", "cannot be changed for now; their condition UpToDate says why"))
	}
	return machine.False(infrav1.ReasonRollingOut, "%d of %d Macs are done: %s", done, s.all, spell(decision.States, setup)+waitsFor(decision.Missed))
}

// macs says what one Mac does, or several do.
func macs(n int, one, several string) string {
	if n == 1 {
		return "1 Mac " + one
	}
	return fmt.Sprintf("%d Macs %s", n, several)
}

// waitsFor names the Macs that count against spec.rollout.maxUnavailable as they are,
// so that it does not look as if nothing happened for no reason.
func waitsFor(missed []string) string {
	if len(missed) == 0 {
		return ""
	}
	const most = 3
	names := strings.Join(missed[:min(most, len(missed))], ", ")
	if more := len(missed) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return "; the others wait for what is not Ready: " + names
}

// spell names the states that some Mac is in, and how many are in none yet.
func spell(states map[rollout.State]int, setup int) string {
	var parts []string
	for _, state := range rollout.States() {
		if n := states[state]; n > 0 && state != rollout.Updated {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if setup > 0 {
		parts = append(parts, fmt.Sprintf("%d being set up", setup))
	}
	return strings.Join(parts, ", ")
}

func halted(decision rollout.Decision) machine.Finding {
	if decision.Halted == "" {
		return machine.False(infrav1.ReasonNotHalted, "")
	}
	f := machine.True(decision.Halted)
	f.Message = fmt.Sprintf("%s; nothing more is changed before another revision is wanted, or %s", decision.Why, decision.HaltedUntil.UTC().Format(time.RFC3339))
	return f
}

// demand is how many Macs a profile is to have.
type demand struct {
	replicas int32
	// byNobody: neither a MachineDeployment nor a Machine names the profile, as where those of
	// a new fleet have not been seen yet.
	byNobody bool
}

// wantedMacs is how many Machines the MachineDeployments of this profile ask
// for; without any, as many as there are.
func (r *Reconciler) wantedMacs(ctx context.Context, profile *infrav1.MacNodeProfile, s survey) (demand, error) {
	list := &clusterv1.MachineDeploymentList{}
	if err := r.Client.List(ctx, list, client.InNamespace(profile.Namespace)); err != nil {
		return demand{}, fmt.Errorf("listing MachineDeployments: %w", err)
	}
	replicas, found := int32(0), false
	for i := range list.Items {
		name, err := r.profileOf(ctx, &list.Items[i])
		if err != nil {
			return demand{}, err
		}
		if name == profile.Name {
			found = true
			replicas += ptr.Deref(list.Items[i].Spec.Replicas, 1)
		}
	}
	if !found {
		return demand{replicas: int32(s.all), byNobody: s.all == 0}, nil
	}
	return demand{replicas: replicas}, nil
}

// profileOf is the profile that a MachineDeployment's Machines name, or nothing.
func (r *Reconciler) profileOf(ctx context.Context, md *clusterv1.MachineDeployment) (string, error) {
	ref := md.Spec.Template.Spec.InfrastructureRef
	if ref.Kind != "ScalewayAppleSiliconMachineTemplate" || !md.DeletionTimestamp.IsZero() {
		return "", nil
	}
	template := &infrav1.ScalewayAppleSiliconMachineTemplate{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: md.Namespace, Name: ref.Name}, template)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading template %s: %w", ref.Name, err)
	}
	if err != nil || template.Spec.Template.Spec.ProfileRef == nil {
		return "", nil
	}
	return template.Spec.Template.Spec.ProfileRef.Name, nil
}
