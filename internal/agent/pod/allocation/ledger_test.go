package allocation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
)

func TestPodsOfBeforeAreAdmittedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Amount{MemoryBytes: 16 * gib})
		l.Expect("old")
		l.Expect("new")
		var refused bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			f, err := l.Admit(t.Context(), "new", Amount{MemoryBytes: 8 * gib})
			refused = f != nil && err == nil
		}()
		l.Open()
		l.Settled("new")
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("admitted before the Pods that were there")
		default:
		}
		l.Restore("old", Amount{MemoryBytes: 14 * gib}, 14*gib)
		l.Settled("old")
		<-done
		if !refused {
			t.Error("admitted beside a Pod that leaves no room")
		}
	})
}

// A Pod that waits has no VM: it does not keep from others what they are to leave it.
func TestPodsThatWaitDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Amount{MemoryBytes: 16 * gib})
		l.Open()
		l.Restore("crashed", Amount{}, 14*gib)
		promised := Amount{MemoryBytes: 14 * gib}
		if refused, err := l.Admit(t.Context(), "new", promised); refused != nil || err != nil {
			t.Fatal(refused, err)
		}
		got := make(chan string, 2)
		acquire := func(uid types.UID, requests Amount, n Need) {
			if _, err := l.Acquire(t.Context(), uid, requests, n, func(string) {}); err == nil {
				got <- string(uid)
			}
		}
		go acquire("new", promised, Need{14 * gib, 14 * gib})
		synctest.Wait()
		go acquire("crashed", Amount{}, Need{4 * gib, 14 * gib})
		synctest.Wait()
		if len(got) != 1 || <-got != "new" {
			t.Fatal("the Pod with a request has no memory")
		}
		l.Release("new")
		if uid := <-got; uid != "crashed" {
			t.Error(uid)
		}
	})
}

// Two Pods whose images need more than they request come one after the other.
func TestPodsThatWaitForMoreThanTheyRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Amount{MemoryBytes: 16 * gib})
		l.Open()
		promised := Amount{MemoryBytes: 8 * gib}
		got := make(chan types.UID, 2)
		for _, uid := range []types.UID{"a", "b"} {
			if refused, err := l.Admit(t.Context(), uid, promised); refused != nil || err != nil {
				t.Fatal(refused, err)
			}
		}
		for _, uid := range []types.UID{"a", "b"} {
			go func() {
				if _, err := l.Acquire(t.Context(), uid, promised, Need{12 * gib, 12 * gib}, func(string) {}); err == nil {
					got <- uid
				}
			}()
		}
		synctest.Wait()
		if len(got) != 1 {
			t.Fatalf("%d have their memory", len(got))
		}
		first := <-got
		l.Release(first)
		if second := <-got; second == first {
			t.Error(second)
		}
	})
}

func TestMemoryIsWaitedForUntilAPodIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Amount{MemoryBytes: 16 * gib})
		l.Open()
		l.Restore("big", Amount{}, 14*gib)
		said := 0
		got := make(chan int64, 1)
		go func() {
			given, err := l.Acquire(t.Context(), "a", Amount{}, Need{4 * gib, 8 * gib}, func(string) { said++ })
			if err != nil {
				t.Error(err)
			}
			got <- given
		}()
		synctest.Wait()
		l.Restore("big", Amount{}, 13*gib)
		synctest.Wait()
		if len(got) != 0 || said != 1 {
			t.Fatalf("it did not wait, or said so %d times", said)
		}
		l.Release("big")
		if given := <-got; given != 8*gib {
			t.Errorf("given %d GiB", given/gib)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("deleted")
		cancel(why)
		if _, err := l.Acquire(ctx, "b", Amount{}, Need{12 * gib, 12 * gib}, func(string) {}); !errors.Is(err, why) {
			t.Errorf("err %v", err)
		}
	})
}
