package remediation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

func TestLadder(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.is(infrav1.ReasonRestartingAgent, infrav1.ReasonRestartingAgent)
	if got := w.machine().Annotations[infrav1.RestartAgentAnnotation]; got != id {
		t.Fatalf("restart asked for: %q, want %q", got, id)
	}
	w.clock.Step(host.DefaultAgentRestartTimeout)
	w.settle()
	w.is(infrav1.ReasonRebooting, infrav1.ReasonRebooting)
	h := w.host()
	if h.Spec.Reboot == nil || h.Spec.Reboot.ID != host.RemediationRebootID(id) || h.Spec.Reboot.Force || h.Spec.Record.DisturbedAt == nil {
		t.Fatalf("reboot %+v, disturbed at %v; want one of ours, counted", h.Spec.Reboot, h.Spec.Record.DisturbedAt)
	}
	w.clock.Step(10 * time.Minute) // the vendor is slow to take it
	w.rebooted()
	w.settle()
	w.clock.Step(10 * time.Minute)
	w.settle()
	w.is(infrav1.ReasonRebooting, infrav1.ReasonRebooting)
	if w.host().Spec.Reboot != nil {
		t.Fatal("a second reboot is asked for")
	}
	if conditions.Has(w.owner(), clusterv1.MachineOwnerRemediatedCondition) {
		t.Fatal("given up before the reboot had its time")
	}
	w.clock.Step(5 * time.Minute)
	w.settle()
	w.is(infrav1.ReasonExhausted, infrav1.ReasonExhausted)
	c := conditions.Get(w.owner(), clusterv1.MachineOwnerRemediatedCondition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != clusterv1.MachineOwnerRemediatedWaitingForRemediationReason {
		t.Fatalf("OwnerRemediated = %+v", c)
	}
	if at := w.host().Spec.Record.DisturbedAt; !at.Time.Equal(w.clock.Now()) {
		t.Errorf("the coming wipe is not counted: disturbed at %v", at)
	}
}

// The owner's own word on the condition is not overwritten.
func TestContract_OwnerRemediatedIsSetOnce(t *testing.T) {
	w := newWorld(t, func(o *objects) { o.node = nil }) // no step but the first helps
	w.settle()
	if conditions.Has(w.owner(), clusterv1.MachineOwnerRemediatedCondition) {
		t.Fatal("given up before the agent's restart had its time")
	}
	w.clock.Step(host.DefaultAgentRestartTimeout)
	w.settle()
	if got := conditions.GetReason(w.owner(), clusterv1.MachineOwnerRemediatedCondition); got != clusterv1.MachineOwnerRemediatedWaitingForRemediationReason {
		t.Fatalf("OwnerRemediated says %q once nothing has helped", got)
	}
	w.answers("RemediationDeferred")
	w.settle()
	if got := conditions.GetReason(w.owner(), clusterv1.MachineOwnerRemediatedCondition); got != "RemediationDeferred" {
		t.Errorf("OwnerRemediated says %s", got)
	}
}

func TestReadyNodeEndsIt(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.clock.Step(time.Hour)
	w.settle()
	w.is(infrav1.ReasonRebooting, infrav1.ReasonRebooting)
	w.nodeReady()
	w.settle()
	w.is("", infrav1.ReasonRecovered)
	if !conditions.IsTrue(w.remediation(), infrav1.RemediatedCondition) {
		t.Error("Remediated is not True")
	}
	if w.host().Spec.Reboot != nil || w.machine().Annotations[infrav1.RestartAgentAnnotation] != "" {
		t.Error("what was asked for is not taken back")
	}
	w.clock.Step(24 * time.Hour)
	w.settle()
	w.is("", infrav1.ReasonRecovered)
}

// What was asked for goes with the object, however it ends.
func TestContract_DeletedRemediationTakesItsWishesBack(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.clock.Step(time.Hour)
	w.settle()
	if err := w.client.Delete(t.Context(), w.remediation()); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if w.host().Spec.Reboot != nil {
		t.Error("the reboot stays asked for")
	}
	if err := w.client.Get(t.Context(), key, &infrav1.ScalewayAppleSiliconRemediation{}); !apierrors.IsNotFound(err) {
		t.Errorf("the remediation stays: %v", err)
	}
}

func TestReportedDiagnosis(t *testing.T) {
	w := newWorld(t, func(o *objects) {
		conditions.Set(o.host, metav1.Condition{
			Type: infrav1.ReachableCondition, Status: metav1.ConditionFalse, Reason: "NoPing", Message: "reboot is advised",
		})
	})
	w.settle()
	if got := conditions.GetMessage(w.remediation(), infrav1.RemediatedCondition); !strings.Contains(got, "reboot is advised") {
		t.Errorf("the diagnosis is not shown: %q", got)
	}
}

// Without the right to act nothing is done, also when the time of a step is over.
func TestLeftAlone(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	overdue := func(o *objects) {
		o.remediation.Finalizers = []string{finalizer}
		o.remediation.Status.Step = infrav1.ReasonRestartingAgent
		o.remediation.Status.StepStartedAt = ptr.To(metav1.NewMicroTime(now.Add(-time.Hour)))
	}
	for name, c := range map[string]struct {
		change func(*objects)
		reason string
		over   bool // the steps are over
		silent bool
		again  bool // no watch tells that a pause is over
	}{
		"Cluster paused":        {change: func(o *objects) { o.cluster.Spec.Paused = ptr.To(true) }, silent: true, again: true},
		"Cluster missing":       {change: func(o *objects) { o.owner.Spec.ClusterName = "moved" }, silent: true, again: true},
		"Machine paused":        {change: func(o *objects) { o.owner.Annotations = paused() }, silent: true, again: true},
		"infra machine paused":  {change: func(o *objects) { o.machine.Annotations = paused() }, silent: true, again: true},
		"remediation paused":    {change: func(o *objects) { o.remediation.Annotations = paused() }, silent: true, again: true},
		"Machine being deleted": {change: func(o *objects) { remove(&o.owner.ObjectMeta, now) }, silent: true},
		"Mac being released":    {change: func(o *objects) { remove(&o.machine.ObjectMeta, now) }, silent: true},
		"Cluster being deleted": {change: func(o *objects) { remove(&o.cluster.ObjectMeta, now) }, silent: true},
		"no owner":              {change: func(o *objects) { o.remediation.OwnerReferences = nil }, silent: true},
		"named otherwise":       {change: func(o *objects) { o.remediation.OwnerReferences[0].Name = "other" }, silent: true},
		"another Machine's": {change: func(o *objects) {
			other := o.owner.DeepCopy()
			other.Name, o.remediation.OwnerReferences[0].Name = "other", "other"
			o.others = append(o.others, other)
		}, silent: true},
		"skipped by core": {change: func(o *objects) {
			o.owner.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""}
		}, over: true, reason: infrav1.ReasonDiagnosing},
		"health check paused":     {change: func(o *objects) { o.check.Annotations = paused() }, over: true, reason: infrav1.ReasonDiagnosing},
		"health check deleted":    {change: func(o *objects) { o.check = nil }, over: true, reason: infrav1.ReasonDiagnosing},
		"health check of others":  {change: func(o *objects) { o.check.Spec.Selector.MatchLabels = map[string]string{"fleet": "runners"} }, over: true, reason: infrav1.ReasonDiagnosing},
		"maintenance":             {change: func(o *objects) { o.host.Spec.Maintenance = &infrav1.Maintenance{Reason: "new SSD"} }, reason: infrav1.ReasonDiagnosing},
		"restored from a backup":  {change: func(o *objects) { o.host.Spec.ClaimRef.UID, o.machine.UID = "another", "this" }, reason: infrav1.ReasonDiagnosing},
		"released":                {change: func(o *objects) { o.host.Spec.Release = &infrav1.Release{Token: token} }, reason: infrav1.ReasonDiagnosing},
		"handed over":             {change: func(o *objects) { o.host.Spec.Record.HandedOverAt = ptr.To(metav1.NewMicroTime(now)) }, reason: infrav1.ReasonDiagnosing},
		"a node elsewhere":        {change: func(o *objects) { notBootstrapped(o, infrav1.ReasonDifferentCluster) }, reason: infrav1.ReasonDiagnosing},
		"control plane missing":   {change: func(o *objects) { notBootstrapped(o, infrav1.ReasonWaitingForCluster) }, reason: infrav1.ReasonDiagnosing},
		"host lost":               {change: func(o *objects) { o.host = nil }, reason: infrav1.ReasonDiagnosing},
		"not provisioned":         {change: func(o *objects) { o.machine.Spec.ProviderID = "" }, reason: infrav1.ReasonDiagnosing},
		"others disturbed enough": {change: func(o *objects) { o.others = append(o.others, disturbed("host-2", now)) }, reason: infrav1.ReasonHeld},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, overdue, c.change)
			result := w.settle()
			if c.silent && (w.writes != 0 || (result.RequeueAfter == holdPoll) != c.again) {
				t.Errorf("%d writes, looks again after %s", w.writes, result.RequeueAfter)
			}
			if !c.silent {
				step := infrav1.ReasonRestartingAgent
				if c.over {
					step = ""
				}
				w.is(step, c.reason)
			}
			if got := w.owner(); conditions.Has(got, clusterv1.MachineOwnerRemediatedCondition) {
				t.Error("the Machine is given up")
			}
			h := &infrav1.ScalewayAppleSiliconHost{}
			if err := w.client.Get(t.Context(), client.ObjectKey{Name: "host-1"}, h); err == nil && h.Spec.Reboot != nil {
				t.Error("a reboot is asked for")
			}
		})
	}
}

func notBootstrapped(o *objects, reason string) {
	conditions.Set(o.machine, metav1.Condition{Type: infrav1.BootstrappedCondition, Status: metav1.ConditionFalse, Reason: reason})
}

func paused() map[string]string { return map[string]string{clusterv1.PausedAnnotation: "true"} }

func remove(meta *metav1.ObjectMeta, now time.Time) {
	meta.DeletionTimestamp, meta.Finalizers = ptr.To(metav1.NewTime(now)), []string{"test/kept"}
}

func disturbed(name string, now time.Time) *infrav1.ScalewayAppleSiliconHost {
	h := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: name}}
	h.Spec.Zone = "fr-par-1"
	host.RecordDisruption(h, now.Add(-time.Minute))
	return h
}

// What another host's recovery held goes on when the guard lets it.
func TestHeldGoesOn(t *testing.T) {
	w := newWorld(t)
	w.report.Suspicious = true
	w.settle()
	w.clock.Step(time.Hour)
	if result := w.settle(); result.RequeueAfter != holdPoll {
		t.Errorf("looks again after %s, want %s", result.RequeueAfter, holdPoll)
	}
	w.is(infrav1.ReasonRestartingAgent, infrav1.ReasonHeld)
	w.report.Suspicious = false
	w.settle()
	w.is(infrav1.ReasonRebooting, infrav1.ReasonRebooting)
}

// A Machine whose server is gone needs another; nothing is wiped by that.
func TestGoneServerIsGivenUpAtOnce(t *testing.T) {
	w := newWorld(t, func(o *objects) { o.host.Status.Phase = infrav1.HostGone })
	w.report.Suspicious = true
	w.settle()
	w.is(infrav1.ReasonExhausted, infrav1.ReasonExhausted)
	if w.host().Spec.Record.DisturbedAt != nil {
		t.Error("a host that is gone was counted as disturbed")
	}
}

// A Machine that lost its host needs another Mac: what runs on the host is not its own
// to restart or reboot. One whose host was found again may have it back.
func TestALostHostIsGivenUpAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *infrav1.ScalewayAppleSiliconHost)
		lost   bool
	}{
		"claimed for another":      {func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.ClaimRef.Token = "another" }, true},
		"of a copy's source":       {func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.ClaimRef.Name = "another" }, true},
		"freed":                    {func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.ClaimRef, h.Status.Server.Name = nil, "pool-1" }, true},
		"found again, not claimed": {func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.ClaimRef, h.Status.Server.Name = nil, key.Name }, false},
		"found again, not read":    {func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.ClaimRef = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *objects) { c.change(o.host) })
			w.report.Suspicious = true
			w.settle()
			if gaveUp := w.remediation().Status.Step == infrav1.ReasonExhausted; gaveUp != c.lost {
				t.Errorf("given up: %t, %+v", gaveUp, w.remediation().Status)
			}
			if h := w.host(); h.Spec.Reboot != nil || h.Spec.Record.DisturbedAt != nil || w.machineAnnotated() {
				t.Errorf("touched: %+v", h.Spec)
			}
		})
	}
}

// Who deletes a Machine's object of our kind alone frees its Mac: core goes on with the Machine,
// and with nothing that it could run on. One that core calls missing may come with a restore.
func TestAMachineWithoutItsInfrastructureIsGivenUpAtOnce(t *testing.T) {
	for reason, lost := range map[string]bool{
		clusterv1.MachineInfrastructureDeletedReason: true, clusterv1.MachineInfrastructureDoesNotExistReason: false,
	} {
		for kind, ours := range map[string]bool{"ScalewayAppleSiliconMachine": true, "DockerMachine": false} {
			w := newWorld(t, func(o *objects) {
				o.owner.Spec.InfrastructureRef.Kind = kind
				o.host, o.node = nil, nil
				conditions.Set(o.owner, metav1.Condition{Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: reason})
			})
			if err := w.client.Delete(t.Context(), w.machine()); err != nil {
				t.Fatal(err)
			}
			w.report.Suspicious = true
			w.settle()
			said := conditions.IsFalse(w.owner(), clusterv1.MachineOwnerRemediatedCondition)
			if step := w.remediation().Status.Step; said != (lost && ours) || (step == infrav1.ReasonExhausted) != said {
				t.Errorf("%s, %s: given up: %t, %+v", kind, reason, said, w.remediation().Status)
			}
		}
	}
}

// One whose server somebody renamed holds its claim: the name may come back, and with
// it the right to mend. The host controller reboots no server of another name.
func TestARenamedHostIsNotGivenUpAtOnce(t *testing.T) {
	w := newWorld(t, func(o *objects) {
		o.host.Status.Conditions = []metav1.Condition{{Type: infrav1.NameInSyncCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonChangedByOther}}
	})
	w.settle()
	w.is(infrav1.ReasonRestartingAgent, infrav1.ReasonRestartingAgent)
}

// An event for each transition, and for nothing else.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.settle()
	w.clock.Step(time.Hour)
	w.settle()
	w.settle()
	for _, want := range []string{infrav1.ReasonRestartingAgent, infrav1.ReasonRebooting} {
		if got := <-w.events.Events; !strings.Contains(got, want) {
			t.Errorf("event %q, want %s", got, want)
		}
	}
	if n := len(w.events.Events); n != 0 {
		t.Errorf("%d more events", n)
	}
}

// A Node that says it is another Mac proves nothing about this one.
func TestAnotherMacsNodeIsNoRecovery(t *testing.T) {
	w := newWorld(t, func(o *objects) {
		o.node.Spec.ProviderID = host.ProviderID("fr-par-1", "6f1f1a52-0000-4000-8000-000000000002")
		o.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	w.settle()
	w.is(infrav1.ReasonRestartingAgent, infrav1.ReasonRestartingAgent)
}

// machineAnnotated reports that a restart of the agent was asked for.
func (w *world) machineAnnotated() bool {
	w.Helper()
	m := &infrav1.ScalewayAppleSiliconMachine{}
	if err := w.client.Get(w.Context(), key, m); err != nil {
		w.Fatal(err)
	}
	return m.Annotations[infrav1.RestartAgentAnnotation] != ""
}
