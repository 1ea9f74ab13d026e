package slot

import (
	"context"
	"errors"
	"testing"
	"time"
)

// queued waits until n ask for a slot.
func queued(t *testing.T, g *Gate, n int) {
	t.Helper()
	deadline := time.After(time.Minute)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		g.mu.Lock()
		waiting := len(g.queue)
		g.mu.Unlock()
		if waiting == n {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%d wait, want %d", waiting, n)
		}
	}
}

func TestSlotsAreGivenInOrder(t *testing.T) {
	g := New(2)
	ctx := context.Background()
	for _, name := range []string{"a", "b", "a"} {
		if err := g.Acquire(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if n := g.Free(); n != 0 {
		t.Fatalf("%d free, want 0", n)
	}
	got := make(chan string, 2)
	for i, name := range []string{"c", "d"} {
		go func() {
			if g.Acquire(ctx, name) == nil {
				got <- name
			}
		}()
		queued(t, g, i+1)
	}
	for _, step := range []struct{ release, next string }{{"a", "c"}, {"b", "d"}} {
		g.Release(step.release)
		if name := <-got; name != step.next {
			t.Errorf("the slot of %s went to %s, want %s", step.release, name, step.next)
		}
	}
}

func TestWhoGivesUpLeavesTheQueue(t *testing.T) {
	g := New(1)
	if err := g.Acquire(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	why := errors.New("deleted")
	ctx, cancel := context.WithCancelCause(context.Background())
	failed := make(chan error)
	go func() { failed <- g.Acquire(ctx, "b") }()
	queued(t, g, 1)
	cancel(why)
	if err := <-failed; !errors.Is(err, why) {
		t.Errorf("error %v, want %v", err, why)
	}
	g.Release("a")
	if n := g.Free(); n != 1 {
		t.Errorf("%d free, want 1", n)
	}
}

// A slot that is given to one in the moment in which that one gives up is the next one's.
func TestASlotOfWhoHasJustGivenUpGoesOn(t *testing.T) {
	g := New(1)
	g.Adopt("a")
	b, c := g.enqueue("b"), g.enqueue("c")
	g.Release("a")
	g.withdraw(b) // it was given the slot, and has seen the end of its Pod only
	select {
	case <-c.ready:
	default:
		t.Error("nobody has the slot, and nobody gets it")
	}
	g.Release("c")
	if n := g.Free(); n != 1 {
		t.Errorf("%d free, want 1", n)
	}
}

func TestAdoptGoesBeyondTheLimit(t *testing.T) {
	g := New(1)
	g.Adopt("a")
	g.Adopt("b")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Acquire(ctx, "c") }()
	queued(t, g, 1)
	g.Release("a")
	queued(t, g, 1) // b still holds the only slot
	g.Release("b")
	if err := <-done; err != nil {
		t.Error(err)
	}
	cancel()
}
