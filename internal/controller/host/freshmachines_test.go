package host

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// gated lists one Machine more each time, once it is let.
type gated struct {
	client.Reader
	let   chan struct{}
	lists int
	err   error
}

func (g *gated) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	g.lists++
	n := g.lists
	<-g.let
	list.(*infrav1.ScalewayAppleSiliconMachineList).Items = make([]infrav1.ScalewayAppleSiliconMachine, n)
	return g.err
}

// While one list is under way a crowd asks: another one serves all of it, and nobody gets one that began before he asked.
func TestOneListServesACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, fresh := &gated{let: make(chan struct{})}, &freshMachines{}
		var wait sync.WaitGroup
		ask := func(want int) {
			wait.Go(func() {
				if got, err := fresh.list(t.Context(), reader); err != nil || len(got) != want {
					t.Errorf("%d Machines, %v; want those of list %d", len(got), err, want)
				}
			})
		}
		ask(1)
		synctest.Wait()
		for range 50 {
			ask(2)
		}
		synctest.Wait()
		reader.let <- struct{}{}
		synctest.Wait() // one of the crowd lists
		ask(3)
		ask(3)
		synctest.Wait()
		close(reader.let)
		wait.Wait()
		if reader.lists != 3 {
			t.Errorf("%d lists for 53 who asked, want 3", reader.lists)
		}
	})
}

func TestWhoGivesUpLeavesTheListToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, fresh := &gated{let: make(chan struct{})}, &freshMachines{}
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				if _, err := fresh.list(t.Context(), reader); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait.Go(func() {
			if _, err := fresh.list(ctx, reader); !errors.Is(err, context.Canceled) {
				t.Errorf("who gave up is told %v", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(reader.let)
		wait.Wait()
	})
}

func TestAListThatFailsFailsForAllWhoAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		reader, fresh := &gated{let: make(chan struct{}), err: broken}, &freshMachines{}
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() {
				if got, err := fresh.list(t.Context(), reader); !errors.Is(err, broken) {
					t.Errorf("%d Machines, %v; want that it is broken", len(got), err)
				}
			})
			synctest.Wait() // the first lists, the others wait for one list together
		}
		close(reader.let)
		wait.Wait()
		if reader.lists != 2 {
			t.Errorf("%d lists, want two", reader.lists)
		}
	})
}
