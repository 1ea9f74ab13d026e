package remediation

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// ofAnEarlierTemplate is a Machine in a MachineSet that is not its MachineDeployment's present
// one any more, with that strategy.
func ofAnEarlierTemplate(strategy clusterv1.MachineDeploymentRolloutStrategyType) func(*objects) {
	return func(o *objects) {
		controlledBy := func(kind, name string) []metav1.OwnerReference {
			return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: name, UID: "o", Controller: ptr.To(true)}}
		}
		deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "builders"}}
		deployment.Spec.Rollout.Strategy.Type = strategy
		set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "builders-1", OwnerReferences: controlledBy("MachineDeployment", deployment.Name)}}
		o.owner.UID, o.owner.OwnerReferences = "m", controlledBy("MachineSet", set.Name)
		o.owner.Finalizers = []string{clusterv1.MachineFinalizer}
		o.node = nil // no step but the first helps
		o.others = append(o.others, deployment, set)
	}
}

// answers is what the Machine's MachineSet says of its remediation.
func (w *world) answers(reason string) {
	w.Helper()
	owner := w.owner()
	conditions.Set(owner, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: "as core has it"})
	w.setStatus(owner)
}

// giveUp takes the remediation to its end, and lets the MachineSet refuse the rest, a minute later.
func (w *world) giveUp(answer string) {
	w.Helper()
	w.settle()
	w.clock.Step(host.DefaultAgentRestartTimeout)
	if result := w.settle(); result.RequeueAfter != holdPoll {
		w.Fatalf("looks again after %s: no watch tells what the owner answers", result.RequeueAfter)
	}
	w.is(infrav1.ReasonExhausted, infrav1.ReasonExhausted)
	w.clock.Step(time.Minute)
	w.answers(answer)
}

func (w *world) deleted() bool {
	w.Helper()
	return !w.owner().DeletionTimestamp.IsZero()
}

// With OnDelete, which is the chart's default, no Machine of an earlier template would ever be
// replaced: its MachineSet remediates none, and nobody deletes them.
func TestContract_MachineNotRemediatedByItsOwnerIsDeletedWithOnDelete(t *testing.T) {
	for name, c := range map[string]struct {
		strategy clusterv1.MachineDeploymentRolloutStrategyType
		answer   string
		deletes  bool
	}{
		"OnDelete":                          {clusterv1.OnDeleteMachineDeploymentStrategyType, clusterv1.MachineSetMachineCannotBeRemediatedReason, true},
		"RollingUpdate":                     {clusterv1.RollingUpdateMachineDeploymentStrategyType, clusterv1.MachineSetMachineCannotBeRemediatedReason, false},
		"OnDelete, of the present one":      {clusterv1.OnDeleteMachineDeploymentStrategyType, clusterv1.MachineSetMachineRemediationDeferredReason, false},
		"OnDelete, not answered yet":        {clusterv1.OnDeleteMachineDeploymentStrategyType, clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, false},
		"neither, as of another MachineSet": {"", clusterv1.MachineSetMachineCannotBeRemediatedReason, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ofAnEarlierTemplate(c.strategy))
			w.giveUp(c.answer)
			w.settle()
			if w.deleted() != c.deletes {
				t.Errorf("deleted: %t; %+v", w.deleted(), w.remediation().Status)
			}
			if at := w.host().Spec.Record.DisturbedAt; c.deletes && !at.Time.Equal(w.clock.Now()) {
				t.Errorf("the coming wipe is not counted: disturbed at %v", at)
			}
		})
	}
}

// A Machine without a MachineSet, or with one that nobody rolls out, is not ours to delete.
func TestAMachineOfNoMachineDeploymentIsNotDeleted(t *testing.T) {
	for name, change := range map[string]func(*objects){
		"no MachineSet":         func(o *objects) { o.owner.OwnerReferences = nil },
		"MachineSet missing":    func(o *objects) { o.others = o.others[:1] },
		"no MachineDeployment":  func(o *objects) { o.others[1].SetOwnerReferences(nil) },
		"deployment is missing": func(o *objects) { o.others = o.others[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ofAnEarlierTemplate(clusterv1.OnDeleteMachineDeploymentStrategyType), change)
			w.giveUp(clusterv1.MachineSetMachineCannotBeRemediatedReason)
			w.settle()
			if w.deleted() {
				t.Error("deleted")
			}
		})
	}
}

// The guard and the health check's limit judge the deletion, too: it may come long after the
// Machine was given up, as after an upgrade of a manager that deleted none.
func TestADeletionIsHeldAsAnyOtherWipe(t *testing.T) {
	t.Run("others disturbed enough", func(t *testing.T) {
		w := newWorld(t, ofAnEarlierTemplate(clusterv1.OnDeleteMachineDeploymentStrategyType))
		w.giveUp(clusterv1.MachineSetMachineCannotBeRemediatedReason)
		if err := w.client.Create(t.Context(), disturbed("host-2", w.clock.Now())); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.is(infrav1.ReasonExhausted, infrav1.ReasonHeld)
		if w.deleted() {
			t.Error("deleted")
		}
		w.clock.Step(2 * time.Hour)
		w.settle()
		if !w.deleted() {
			t.Errorf("not deleted once the guard lets it: %+v", w.remediation().Status)
		}
	})
	t.Run("too many unhealthy", func(t *testing.T) {
		w := newWorld(t, ofAnEarlierTemplate(clusterv1.OnDeleteMachineDeploymentStrategyType))
		w.giveUp(clusterv1.MachineSetMachineCannotBeRemediatedReason)
		allowed := func(status metav1.ConditionStatus) {
			check := &clusterv1.MachineHealthCheck{}
			w.get(client.ObjectKeyFromObject(looksAtDisk()), check)
			conditions.Set(check, metav1.Condition{Type: clusterv1.MachineHealthCheckRemediationAllowedCondition, Status: status, Reason: "Test"})
			w.setStatus(check)
		}
		allowed(metav1.ConditionFalse)
		w.settle()
		w.is(infrav1.ReasonExhausted, infrav1.ReasonDiagnosing)
		if w.deleted() {
			t.Error("deleted")
		}
		allowed(metav1.ConditionTrue)
		w.settle()
		if !w.deleted() {
			t.Errorf("not deleted once it is allowed: %+v", w.remediation().Status)
		}
	})
}

// What came between the giving up and the deletion holds it: the Mac is not to be wiped for it.
func TestADeletionIsHinderedAsAnyOtherStep(t *testing.T) {
	for name, change := range map[string]func(w *world, h *host.Host){
		"maintenance": func(_ *world, h *host.Host) { h.Spec.Maintenance = &infrav1.Maintenance{Reason: "new SSD"} },
		"handed over": func(w *world, h *host.Host) { host.RecordMove(h, w.clock.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ofAnEarlierTemplate(clusterv1.OnDeleteMachineDeploymentStrategyType))
			w.giveUp(clusterv1.MachineSetMachineCannotBeRemediatedReason)
			h := w.host()
			change(w, h)
			if err := w.client.Update(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			w.settle()
			w.is(infrav1.ReasonExhausted, infrav1.ReasonDiagnosing)
			if w.deleted() {
				t.Error("deleted")
			}
		})
	}
}

// Who pauses the Machine just before, or makes another of its name, keeps it.
func TestOnlyTheMachineThatWasReadIsDeleted(t *testing.T) {
	w := newWorld(t, ofAnEarlierTemplate(clusterv1.OnDeleteMachineDeploymentStrategyType))
	w.giveUp(clusterv1.MachineSetMachineCannotBeRemediatedReason)
	var asked *metav1.Preconditions
	w.through(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			asked = (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions
			owner := w.owner()
			owner.Annotations = map[string]string{clusterv1.PausedAnnotation: "true"}
			if err := c.Update(ctx, owner); err != nil {
				return err
			}
			err := c.Delete(ctx, o, opts...)
			if !apierrors.IsConflict(err) {
				t.Errorf("the API server says %v", err)
			}
			return err
		},
	})
	w.settle()
	if asked == nil || asked.UID == nil || *asked.UID != "m" || w.deleted() {
		t.Errorf("preconditions %+v, deleted: %t", asked, w.deleted())
	}
}
