package profile

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/requeue"
)

// down makes a Node not Ready since then.
func (w *world) down(name string, since time.Time) {
	w.t.Helper()
	node := w.node(name)
	node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(since)
	if err := w.client.Status().Update(w.t.Context(), node); err != nil {
		w.t.Fatal(err)
	}
}

// rosy is a cache that has not heard of any Node that went down.
type rosy struct{ client.Client }

func (c rosy) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	if nodes, are := list.(*corev1.NodeList); are && err == nil {
		for i := range nodes.Items {
			nodes.Items[i].Status.Conditions[0].Status = corev1.ConditionTrue
		}
	}
	return err
}

func TestACacheThatLagsTakesNoSecondMacAway(t *testing.T) {
	w := newWorld(t, append(three("old"), builders())...)
	w.prove("a", revision())
	w.prove("c", revision())
	w.pass(time.Hour)
	w.down("c", w.clock.Now())
	w.r.Client = rosy{w.client}
	for range 3 {
		w.visit("builders")
	}
	if got := w.turns(); len(got) != 0 {
		t.Errorf("it is the turn of %q, while c is away", got)
	}
}

// racing has somebody write a Machine just before its update permit is written.
type racing struct {
	client.Client
	before func(name string)
}

func (c racing) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if m, is := o.(*infrav1.ScalewayAppleSiliconMachine); is {
		c.before(m.Name)
	}
	return c.Client.Patch(ctx, o, p, opts...)
}

// An update permit is given on what was read: where the Machine has changed since, nothing is
// given, and it is looked at again soon.
func TestATurnIsNotGivenOnAnOldCopy(t *testing.T) {
	w := newWorld(t, append(join(running("a", "builders", "old")), builders())...)
	w.r.Client = racing{w.client, func(name string) {
		m := w.machine(name)
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		w.update(m)
	}}
	if result := w.visit("builders"); result.RequeueAfter != requeue.Delay {
		t.Errorf("it is looked at again in %s", result.RequeueAfter)
	}
	w.visit("builders")
	if got := w.turns(); len(got) != 0 {
		t.Errorf("it is the turn of %q, which was paused before", got)
	}
}

// A Mac that is dead, with or without a Node, holds the others up for a quarter of
// an hour and no longer.
func TestADeadMacIsWaitedForAWhile(t *testing.T) {
	for name, kill := range map[string]func(w *world){
		"its Node is not Ready": func(w *world) { w.down("c", w.clock.Now()) },
		"its Node is gone": func(w *world) {
			if err := w.client.Delete(w.t.Context(), w.node("c")); err != nil {
				w.t.Fatal(err)
			}
			w.status("c", func(s *infrav1.ScalewayAppleSiliconMachineStatus) {
				s.Conditions = append(s.Conditions, metav1.Condition{
					Type: infrav1.NodeReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonNodeMissing, LastTransitionTime: metav1.NewTime(w.clock.Now()),
				})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(three(revision()), builders())...)
			w.status("b", func(s *infrav1.ScalewayAppleSiliconMachineStatus) { s.Drift.Steps = []string{"firewall"} })
			kill(w)
			result := w.visit("builders")
			if got := w.turns(); len(got) != 0 || result.RequeueAfter != 15*time.Minute {
				t.Fatalf("it is the turn of %q, and it is looked at again in %s", got, result.RequeueAfter)
			}
			w.pass(result.RequeueAfter)
			w.visit("builders")
			if got := w.turns(); !slices.Equal(got, []string{"b"}) {
				t.Errorf("it is the turn of %q, want b's", got)
			}
		})
	}
}
