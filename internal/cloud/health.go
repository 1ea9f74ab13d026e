package cloud

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// What Health judges by: enough calls to mean something, over a time that
// outlasts one bad minute of the vendor.
const (
	healthWindow   = 5 * time.Minute
	healthSlice    = 30 * time.Second
	healthMinCalls = 10
)

// Health knows how the vendor's last calls ended. Its zero value works. It is
// safe for concurrent use.
type Health struct {
	// Clock says when an observed call ended. Default: the real one.
	Clock clock.PassiveClock

	mu     sync.Mutex
	slices [healthWindow / healthSlice]healthCount
}

// healthCount is the calls of one slice of time.
type healthCount struct {
	start       time.Time
	calls, fail int
}

// Observe counts a call that ended now. It is an Observe function.
func (h *Health) Observe(_ string, _ time.Duration, err error) {
	now := h.now()
	start := now.Truncate(healthSlice)
	h.mu.Lock()
	defer h.mu.Unlock()
	count := &h.slices[uint64(start.Unix())/uint64(healthSlice/time.Second)%uint64(len(h.slices))]
	if !count.start.Equal(start) {
		*count = healthCount{start: start}
	}
	count.calls++
	if saysVendorFails(err) {
		count.fail++
	}
}

// Failing reports that at least ten calls ended in the last five minutes, and
// more than half of them because the vendor did not answer, throttled us, or
// rejected the credentials.
func (h *Health) Failing(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls, fail := 0, 0
	for _, count := range h.slices {
		if age := now.Sub(count.start); age >= 0 && age < healthWindow {
			calls, fail = calls+count.calls, fail+count.fail
		}
	}
	return calls >= healthMinCalls && 2*fail > calls
}

func (h *Health) now() time.Time {
	if h.Clock == nil {
		return time.Now()
	}
	return h.Clock.Now()
}

// saysVendorFails: refusals of a single act, "gone" among them, are answers.
func saysVendorFails(err error) bool {
	switch KindOf(err) {
	case KindUnavailable, KindThrottled, KindUnauthorized:
		return true
	}
	return false
}
