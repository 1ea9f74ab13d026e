package host

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// freshMachines lists the Machines of all namespaces uncached. Hosts become free in crowds, at the
// end of a list of the inventory, and each asks: one list serves all who asked before it began.
// The zero value works.
type freshMachines struct {
	mu sync.Mutex
	// next is the list that has not begun yet, for those who wait for their turn.
	next *freshList
	// turn is full while a list is under way.
	turn chan struct{}
}

// freshList may be read once its turn has come, and must not be changed.
type freshList struct {
	read     bool
	machines []infrav1.ScalewayAppleSiliconMachine
	err      error
}

// list returns Machines that were read after it was called.
func (f *freshMachines) list(ctx context.Context, reader client.Reader) ([]infrav1.ScalewayAppleSiliconMachine, error) {
	mine, turn := f.join()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting to list Machines: %w", ctx.Err())
	}
	if mine.read {
		return mine.machines, mine.err // by somebody who waited, too
	}
	f.mu.Lock()
	f.next = nil // whoever asks from now on is served by another one
	f.mu.Unlock()
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := reader.List(ctx, list); err != nil {
		mine.err = fmt.Errorf("listing Machines: %w", err)
	}
	mine.read, mine.machines = true, list.Items
	return mine.machines, mine.err
}

func (f *freshMachines) join() (*freshList, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.turn == nil {
		f.turn = make(chan struct{}, 1)
	}
	if f.next == nil {
		f.next = &freshList{}
	}
	return f.next, f.turn
}
