package scaleway

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of the pause that all calls take after the vendor said 429. It never
// says for how long (facts: no Retry-After was ever recorded).
const (
	firstPause = time.Second
	longPause  = 30 * time.Second
)

// errBudget: the call's deadline comes before the shared budget allows it.
var errBudget = errors.New("no request budget within the call's deadline")

// exchange is what the transport saw of a call, for the cases in which the SDK
// loses the status or the request's id.
type exchange struct {
	status    int
	requestID string
	empty     bool // a success with no body at all
}

type exchangeKey struct{}

// transport keeps all requests of a client within one budget and pauses them
// together when the vendor throttles.
type transport struct {
	next    http.RoundTripper
	limiter *rate.Limiter

	mu          sync.Mutex
	pausedUntil time.Time
	pause       time.Duration
}

// RoundTrip answers the SDK's call for /metadata itself and sends all others.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && r.URL.Path == "/metadata" {
		return noMetadata(r), nil
	}
	if err := t.admit(r.Context()); err != nil {
		return nil, err
	}
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	t.learn(answer.StatusCode)
	if seen, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
		seen.status = answer.StatusCode
		seen.requestID = answer.Header.Get("X-Request-Id")
		seen.empty = answer.StatusCode == http.StatusOK && answer.ContentLength == 0
	}
	return answer, nil
}

// admit waits for the pause and the budget, or fails when they would outlast
// the call's deadline.
func (t *transport) admit(ctx context.Context) error {
	t.mu.Lock()
	wait := time.Until(t.pausedUntil)
	t.mu.Unlock()
	if deadline, ok := ctx.Deadline(); ok && wait > time.Until(deadline) {
		return errBudget
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
	if err := t.limiter.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errBudget
	}
	return nil
}

// learn lengthens the pause with each 429 and forgets it with the first answer
// that is none. Jitter keeps several managers apart.
func (t *transport) learn(status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if status != http.StatusTooManyRequests {
		t.pause = 0
		return
	}
	t.pause = min(max(2*t.pause, firstPause), longPause)
	t.pausedUntil = time.Now().Add(t.pause/2 + rand.N(t.pause/2))
}

// noMetadata answers what the SDK asks after each call in order to fill a field
// that nobody here reads. Not found is kept out of its cache, which has no lock;
// a real answer would be fetched without the caller's context, and makes the SDK
// panic over a null in a list.
func noMetadata(r *http.Request) *http.Response {
	return &http.Response{
		Status: "404 Not Found", StatusCode: http.StatusNotFound, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: r,
	}
}
