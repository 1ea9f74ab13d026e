package job

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "fleet", Name: name}
}

// waitFor is work that ends with the gate, or with its context.
func waitFor(gate <-chan struct{}) Work {
	return func(ctx context.Context, say func(string)) (any, error) {
		say("at work")
		select {
		case <-gate:
			return "found", nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// woken are the objects that had news since it was last asked.
func woken(p *Pool) []string {
	var names []string
	for {
		select {
		case news := <-p.Wakeups():
			names = append(names, news.Object.GetNamespace()+"/"+news.Object.GetName())
		default:
			return names
		}
	}
}

func steps(p *Pool, names ...string) []string {
	var at []string
	for _, name := range names {
		run, _ := p.Look(key(name))
		at = append(at, run.Step)
	}
	slices.Sort(at)
	return at
}

func TestSoManyJobsRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(2, clock.RealClock{}, nil)
		sharing := pool.Sharing()
		gate := make(chan struct{})
		pool.Begin(key("a"), "1", waitFor(gate))
		pool.Begin(key("b"), "1", waitFor(gate))
		synctest.Wait()
		pool.Begin(key("c"), "1", waitFor(gate))
		sharing.Begin(key("d"), "1", waitFor(gate))
		synctest.Wait()
		if at, other := steps(pool, "a", "b", "c"), steps(sharing, "d"); !slices.Equal(at, []string{"at work", "at work", Queued}) || !slices.Equal(other, []string{Queued}) {
			t.Errorf("steps = %q, and %q of the pool that shares; want two at work", at, other)
		}
		close(gate)
		pool.Wait()
		sharing.Wait()
		for name, p := range map[string]*Pool{"a": pool, "b": pool, "c": pool, "d": sharing} {
			if run, _ := p.Look(key(name)); !run.Done || run.Result != nil || run.Found != "found" {
				t.Errorf("%s = %+v, want it done", name, run)
			}
		}
	})
}

// A step that lasts and the end are news; nothing else would bring the reconciler back.
// A step that is over at once is none.
func TestNewsWakesTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1, clock.RealClock{}, nil)
		gate := make(chan struct{})
		pool.Begin(key("a"), "1", func(ctx context.Context, say func(string)) (any, error) {
			say("over at once")
			return waitFor(gate)(ctx, say)
		})
		synctest.Wait()
		if names := woken(pool); len(names) > 0 || steps(pool, "a")[0] != "at work" {
			t.Errorf("woken at %q: %q", steps(pool, "a"), names)
		}
		time.Sleep(stepNews)
		synctest.Wait()
		if names := woken(pool); !slices.Equal(names, []string{"fleet/a"}) {
			t.Errorf("woken by a step that lasts: %q", names)
		}
		close(gate)
		pool.Wait()
		time.Sleep(2 * stepNews)
		if names := woken(pool); !slices.Equal(names, []string{"fleet/a"}) {
			t.Errorf("woken at the end: %q", names)
		}
	})
}

func TestAJobThatRunsIsNotBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(2, clock.RealClock{}, nil)
		gate := make(chan struct{})
		begin := func(id string) string {
			pool.Begin(key("a"), id, waitFor(gate))
			run, _ := pool.Look(key("a"))
			return run.ID
		}
		if first, second := begin("1"), begin("2"); first != "1" || second != "1" {
			t.Errorf("jobs %q and %q, want the first to go on", first, second)
		}
		close(gate)
		pool.Wait()
		if third := begin("3"); third != "3" {
			t.Errorf("job %q, want another after the first has ended", third)
		}
		pool.Wait()
	})
}

func TestCancelEndsAJob(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for name, end := range map[string]func(p *Pool){
		"cancelled":  func(p *Pool) { p.Cancel(key("runs")); p.Cancel(key("waits")) },
		"stopped":    func(p *Pool) { p.Stop() },
		"leadership": func(p *Pool) { _ = p.Start(ended) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := NewPool(1, clock.RealClock{}, nil)
				pool.Begin(key("runs"), "1", waitFor(nil))
				synctest.Wait()
				pool.Begin(key("waits"), "1", waitFor(nil))
				synctest.Wait()
				end(pool)
				pool.Wait()
				for _, name := range []string{"runs", "waits"} {
					if run, _ := pool.Look(key(name)); !run.Done || !errors.Is(run.Result, context.Canceled) {
						t.Errorf("%s = %+v, want it cancelled", name, run)
					}
				}
			})
		})
	}
}

func TestAJobIsCancelledInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1, clock.RealClock{}, nil)
		pool.Begin(key("runs"), "1", waitFor(nil))
		synctest.Wait()
		pool.Begin(key("waits"), "1", waitFor(nil))
		pool.Cancel(key("waits"))
		synctest.Wait()
		if waits, _ := pool.Look(key("waits")); !waits.Done || waits.Step != Queued || !pool.Running(key("runs")) {
			t.Errorf("waits = %+v, want it to end before the other does", waits)
		}
		pool.Stop()
		pool.Wait()
	})
}

// What is noted of a job and its being forgotten are for its end: while it runs it may
// yet come to anything.
func TestOnlyAFinishedJobIsNotedOrForgotten(t *testing.T) {
	note := func(p *Pool) { p.Note(key("a"), func(run *Run) { run.Recorded = true }) }
	forget := func(p *Pool) { p.Forget(key("a")) }
	for name, c := range map[string]struct {
		begun, done     bool
		do              func(p *Pool)
		known, recorded bool
	}{
		"note, none":       {do: note},
		"note, running":    {begun: true, do: note, known: true},
		"note, finished":   {begun: true, done: true, do: note, known: true, recorded: true},
		"forget, none":     {do: forget},
		"forget, running":  {begun: true, do: forget, known: true},
		"forget, finished": {begun: true, done: true, do: forget},
	} {
		t.Run(name, func(t *testing.T) {
			var work func()
			pool := NewPool(1, clock.RealClock{}, func(w func()) { work = w })
			if c.begun {
				pool.Begin(key("a"), "1", func(context.Context, func(string)) (any, error) { return nil, nil })
			}
			if c.done {
				work()
			}
			c.do(pool)
			run, known := pool.Look(key("a"))
			if known != c.known || run.Recorded != c.recorded || pool.Running(key("a")) != (c.begun && !c.done) {
				t.Errorf("run = %+v, known = %t, want known %t, recorded %t", run, known, c.known, c.recorded)
			}
		})
	}
}
