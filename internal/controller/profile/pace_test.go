package profile

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// slow is a cache in which Machines take a while to list.
type slow struct {
	client.Client
	w     *world
	takes time.Duration
	lists *int
	err   error
}

func (c slow) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, are := list.(*infrav1.ScalewayAppleSiliconMachineList); are {
		c.w.pass(c.takes)
		*c.lists++
		if c.err != nil {
			return c.err
		}
	}
	return c.Client.List(ctx, list, opts...)
}

// News of a large fleet come faster than passes over it end: these leave the processor to others, and no turn waits for long.
func TestPassesOverALargeFleetLeaveTimeBetween(t *testing.T) {
	for takes, breath := range map[time.Duration]time.Duration{0: 0, 100 * time.Millisecond: 400 * time.Millisecond, 10 * time.Second: 2 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			w := newWorld(t, append(three(revision()), builders())...)
			lists := 0
			w.r.Client = slow{Client: w.client, w: w, takes: takes, lists: &lists}
			w.visit("builders")
			again := w.visit("builders").RequeueAfter
			if want := map[bool]int{true: 2, false: 1}[breath == 0]; lists != want || breath > 0 && again != breath {
				t.Fatalf("%d passes, and the next in %s; want %d, and %s", lists, again, want, breath)
			}
			w.pass(breath)
			before := lists
			if w.visit("builders"); lists != before+1 {
				t.Errorf("after %s nobody looked", breath)
			}
		})
	}
}

// A pass that fails is tried again as its work queue says, whose pauses grow.
func TestAPassThatFailedIsNotPaced(t *testing.T) {
	w := newWorld(t, append(three(revision()), builders())...)
	lists := 0
	broken := errors.New("broken")
	w.r.Client = slow{Client: w.client, w: w, takes: time.Second, lists: &lists, err: broken}
	for range 2 {
		key := types.NamespacedName{Namespace: namespace, Name: "builders"}
		if result, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); !errors.Is(err, broken) || result.RequeueAfter != 0 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	if lists != 2 {
		t.Errorf("%d passes of 2", lists)
	}
}
