package remediation

import (
	"context"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// through makes the reconciler write, and read its cache, through these functions.
func (w *world) through(funcs interceptor.Funcs) {
	w.Helper()
	watching, ok := w.client.(client.WithWatch)
	if !ok {
		w.Fatal("the fake client cannot watch")
	}
	w.r.Client = interceptor.NewClient(watching, funcs)
}

// A cache that does not know yet what another remediation did must not let this one
// do the same.
func TestTheStormGuardCountsWhatTheCacheDoesNotKnow(t *testing.T) {
	w := newWorld(t, func(o *objects) { o.remediation.Status.Step = infrav1.ReasonRestartingAgent })
	other := disturbed("host-2", w.clock.Now())
	if err := w.client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.through(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, hosts := list.(*infrav1.ScalewayAppleSiliconHostList); hosts {
				return nil // as the cache has it: none
			}
			return c.List(ctx, list, opts...)
		},
	})
	w.settle()
	w.clock.Step(host.DefaultAgentRestartTimeout)
	w.settle()
	w.is(infrav1.ReasonRestartingAgent, infrav1.ReasonHeld)
}

// What its owner says of the Machine meanwhile is not overruled.
func TestAMachineThatChangesMeanwhileIsNotGivenUpInThatPass(t *testing.T) {
	w := newWorld(t, func(o *objects) { o.remediation.Status.Step = infrav1.ReasonExhausted })
	changed := false
	w.through(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if _, is := o.(*infrav1.ScalewayAppleSiliconHost); is && !changed {
				changed = true
				owner := w.owner()
				owner.Annotations = map[string]string{clusterv1.PausedAnnotation: "true"}
				if err := c.Update(ctx, owner); err != nil {
					return err
				}
			}
			return c.Update(ctx, o, opts...)
		},
	})
	var err error
	for n := 0; n < 5 && !changed && err == nil; n++ {
		_, err = w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	}
	if got := conditions.Get(w.owner(), clusterv1.MachineOwnerRemediatedCondition); !changed || err != nil || got != nil {
		t.Errorf("changed %t, %v; OwnerRemediated %+v of a Machine that was paused meanwhile", changed, err, got)
	}
}
