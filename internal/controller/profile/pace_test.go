package profile

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// slow is a cache in which Machines take a while to list.
type slow struct {
	client.Client
	w     *world
	takes time.Duration
	lists *int
}

func (c slow) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, are := list.(*infrav1.ScalewayAppleSiliconMachineList); are {
		c.w.pass(c.takes)
		*c.lists++
	}
	return c.Client.List(ctx, list, opts...)
}

// News of a large fleet come faster than passes over it end: these leave the processor to others, and no turn waits for long.
func TestPassesOverALargeFleetLeaveTimeBetween(t *testing.T) {
	for takes, breath := range map[time.Duration]time.Duration{0: 0, 100 * time.Millisecond: 400 * time.Millisecond, 10 * time.Second: 2 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			w := newWorld(t, append(three(revision()), builders())...)
			lists := 0
			w.r.Client = slow{w.client, w, takes, &lists}
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
