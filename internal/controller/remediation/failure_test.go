package remediation

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// gaveUpBefore is a host on which so many Machines were given up in the days before, which was
// claimed once more since.
func gaveUpBefore(times int) func(*objects) {
	return func(o *objects) {
		now := time.Unix(1_800_000_000, 0)
		for n := range times {
			o.host.Spec.Failures.Recent = append(o.host.Spec.Failures.Recent, infrav1.Failure{Time: metav1.NewTime(now.Add(time.Duration(n-times) * 24 * time.Hour)), Reason: infrav1.ReasonExhausted})
		}
		o.host.Spec.Record.Wipe.RequiredSince = ptr.To(metav1.NewMicroTime(now.Add(-time.Hour)))
		o.node = nil // no step but the first helps
	}
}

// A Mac that joins and hangs each time would go round between Machines for ever.
func TestAMacOnWhichMachinesAreGivenUpIsQuarantined(t *testing.T) {
	for name, c := range map[string]struct {
		before      int
		change      func(*objects)
		failures    int
		quarantined bool
	}{
		"the first":               {0, nil, 1, false},
		"the second":              {1, nil, 2, false},
		"the third within a week": {2, nil, 3, true},
		"its server is gone":      {2, func(o *objects) { o.host.Status.Phase = infrav1.HostGone }, 2, false},
		"its host is another's":   {2, func(o *objects) { o.host.Spec.ClaimRef.Token = "another" }, 2, false},
		"a person wants another": {2, func(o *objects) {
			o.owner.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
		}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			changes := []func(*objects){gaveUpBefore(c.before)}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			w := newWorld(t, changes...)
			w.settle()
			w.clock.Step(time.Hour)
			w.settle()
			w.clock.Step(time.Hour)
			w.settle()
			w.is(infrav1.ReasonExhausted, infrav1.ReasonExhausted)
			h := w.host()
			if len(h.Spec.Failures.Recent) != c.failures || (h.Spec.Quarantine != nil) != c.quarantined {
				t.Errorf("failures %+v, quarantine %+v", h.Spec.Failures.Recent, h.Spec.Quarantine)
			}
		})
	}
}

// The host is written before the Machine, whose write may be refused: the next look does both
// again.
func TestAGivenUpMachineCountsOnce(t *testing.T) {
	w := newWorld(t, gaveUpBefore(0))
	w.settle()
	w.clock.Step(time.Hour)
	refused := 0
	w.through(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if owner, is := o.(*clusterv1.Machine); is && refused < 3 {
				refused++
				changed := owner.DeepCopy()
				w.get(key, changed)
				changed.Annotations = map[string]string{"changed": time.Duration(refused).String()}
				if err := c.Update(ctx, changed); err != nil {
					return err
				}
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	})
	for range 8 {
		if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		w.clock.Step(time.Minute)
	}
	w.is(infrav1.ReasonExhausted, infrav1.ReasonExhausted)
	if h := w.host(); refused != 3 || len(h.Spec.Failures.Recent) != 1 {
		t.Errorf("refused %d times, failures %+v", refused, h.Spec.Failures)
	}
}
