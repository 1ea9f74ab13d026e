package cloud_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/macfleet/macfleet/internal/cloud"
)

// send is one request whose answer takes a while.
func send(ctx context.Context, b *cloud.Budget, class cloud.Class, took time.Duration, o cloud.Outcome) error {
	done, err := b.Admit(ctx, class)
	if err != nil {
		return err
	}
	time.Sleep(took)
	done(o)
	return nil
}

// hammer sends requests of a class from many workers until the context ends, and
// returns their number.
func hammer(ctx context.Context, b *cloud.Budget, class cloud.Class, workers int) int {
	var all sync.WaitGroup
	counts := make([]int, workers)
	for i := range workers {
		all.Go(func() {
			for send(ctx, b, class, 10*time.Millisecond, cloud.Answered) == nil {
				counts[i]++
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

func TestOneClassMayUseTheWholeBudget(t *testing.T) {
	for name, class := range map[string]cloud.Class{"acts": cloud.ClassAct, "lists": cloud.ClassList} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				// 20 s at 100 a second, and a burst of up to 100.
				if n := hammer(ctx, cloud.NewBudget(cloud.BudgetOptions{QPS: 100}), class, 32); n < 1800 || n > 2100 {
					t.Errorf("%d requests in 20 s at 100 a second", n)
				}
			})
		})
	}
}

func TestNeitherClassStarvesTheOther(t *testing.T) {
	for name, busy := range map[string]cloud.Class{"acts": cloud.ClassAct, "lists": cloud.ClassList} {
		t.Run("many "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := cloud.NewBudget(cloud.BudgetOptions{QPS: 100})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				var others sync.WaitGroup
				others.Go(func() { hammer(ctx, b, busy, 500) })
				time.Sleep(10 * time.Second)
				start := time.Now()
				for range 20 { // 2,000 servers are 20 pages
					if err := send(ctx, b, 1-busy, 0, cloud.Answered); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("20 requests of the other class took %s", took)
				}
				cancel()
				others.Wait()
			})
		})
	}
}

func TestAPauseHoldsAllCallsAndEndsWithOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := cloud.NewBudget(cloud.BudgetOptions{})
		ctx := t.Context()
		for i, bound := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			// Ten on their way at once are refused together: that is one refusal.
			atOnce := 1
			if i == 0 {
				atOnce = 10
			}
			var all sync.WaitGroup
			for range atOnce {
				all.Go(func() { _ = send(ctx, b, cloud.ClassAct, time.Millisecond, cloud.Throttled) })
			}
			all.Wait()
			start := time.Now()
			for !admitted(t, b) {
				time.Sleep(time.Millisecond)
			}
			last := time.Since(start)
			if bound *= time.Second; last < bound/2-time.Millisecond*20 || last > bound+patience {
				t.Errorf("pause %d was %s, want between %s and %s", i, last, bound/2, bound)
			}
		}
		if err := send(ctx, b, cloud.ClassAct, 0, cloud.Answered); err != nil {
			t.Fatal(err)
		}
		if err := send(ctx, b, cloud.ClassAct, 0, cloud.Throttled); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := send(ctx, b, cloud.ClassAct, 0, cloud.Answered); err != nil || time.Since(start) > time.Second {
			t.Errorf("after an answer the pause begins anew: %s, %v", time.Since(start), err)
		}
	})
}

// patience is how long a request waits for a pause's end.
const patience = 2 * time.Second

// admitted reports whether a request gets through now; it leaves no trace.
func admitted(t *testing.T, b *cloud.Budget) bool {
	t.Helper()
	done, err := b.Admit(t.Context(), cloud.ClassAct)
	if err == nil {
		done(cloud.Lost)
		return true
	}
	if !cloud.IsThrottled(err) {
		t.Fatalf("while closed: %v", err)
	}
	return false
}

func TestOnlyOneTriesAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := cloud.NewBudget(cloud.BudgetOptions{})
		if err := send(t.Context(), b, cloud.ClassAct, 0, cloud.Throttled); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		try, err := b.Admit(t.Context(), cloud.ClassList)
		if err != nil {
			t.Fatal(err)
		}
		var waiting sync.WaitGroup
		sent := make(chan time.Time, 5)
		for range 5 {
			waiting.Go(func() {
				if send(t.Context(), b, cloud.ClassAct, 0, cloud.Answered) == nil {
					sent <- time.Now()
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		if len(sent) != 0 {
			t.Errorf("%d requests beside the one that tries", len(sent))
		}
		try(cloud.Answered)
		waiting.Wait()
		if len(sent) != 5 {
			t.Errorf("%d of 5 requests went on", len(sent))
		}
	})
}

func TestATryWithoutAnAnswerIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := cloud.NewBudget(cloud.BudgetOptions{})
		for _, o := range []cloud.Outcome{cloud.Throttled, cloud.Lost, cloud.Lost, cloud.Answered, cloud.Answered} {
			if err := send(t.Context(), b, cloud.ClassAct, 0, o); err != nil {
				t.Fatalf("%v: %v", o, err)
			}
		}
	})
}

func TestDeadlinesAreHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := cloud.NewBudget(cloud.BudgetOptions{QPS: 2})
		brief := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			t.Cleanup(cancel)
			return ctx
		}
		for range 2 { // both shares
			if err := send(brief(), b, cloud.ClassAct, 0, cloud.Answered); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if err := send(brief(), b, cloud.ClassAct, 0, cloud.Answered); !cloud.IsThrottled(err) || time.Since(start) != 0 {
			t.Errorf("a wait beyond the deadline: %v after %s", err, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if err := send(ctx, b, cloud.ClassAct, 0, cloud.Answered); !errors.Is(err, context.Canceled) {
			t.Errorf("an ended wait: %v", err)
		}
		time.Sleep(time.Second)
		if err := send(brief(), b, cloud.ClassAct, 0, cloud.Throttled); err != nil {
			t.Fatalf("those who gave up keep their places: %v", err)
		}
		start = time.Now()
		if err := send(brief(), b, cloud.ClassList, 0, cloud.Answered); !cloud.IsThrottled(err) || time.Since(start) != 0 {
			t.Errorf("a pause beyond the deadline: %v after %s", err, time.Since(start))
		}
	})
}
