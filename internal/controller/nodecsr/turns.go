package nodecsr

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// mostTurns are how many requests of one requester are looked up one after the other, and
	// turnEvery when there is one more. A Mac asks for two certificates a day.
	mostTurns = 20
	turnEvery = 5 * time.Second
	// requesters are remembered at most.
	requesters = 4096
	// longest is how long a request is left alone at most that may still come right.
	longest = time.Hour
)

// turns share the looks of the one worker: who asks without end waits, and nobody else. The
// zero value works.
type turns struct {
	mu sync.Mutex
	of *cache.LRUExpireCache
}

// take reports whether it is this requester's turn.
func (t *turns) take(requester string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = cache.NewLRUExpireCache(requesters)
	}
	known, _ := t.of.Get(requester)
	limiter, is := known.(*rate.Limiter)
	if !is {
		limiter = rate.NewLimiter(rate.Every(turnEvery), mostTurns)
	}
	// By then it has all its turns again.
	t.of.Add(requester, limiter, mostTurns*turnEvery)
	return limiter.AllowN(now, 1)
}

// later is when a request is looked at again: the longer it has been there in vain, the later.
func later(again, age time.Duration) time.Duration {
	if again == 0 {
		return 0
	}
	return max(again, min(age, longest))
}
