package scaleway

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/macfleet/macfleet/internal/cloud"
)

// longestBody bounds an answer. A page of 100 servers is some 150 kB.
const longestBody = 2 << 20

// errTooLong: the answer is longer than any that the vendor gives.
var errTooLong = errors.New("the answer is too long")

// exchange is what the transport is told of a call, and what it saw of it, for
// the cases in which the SDK loses the status or the request's id.
type exchange struct {
	class     cloud.Class
	status    int
	requestID string
	empty     bool // a success with no body at all
	json      bool // the answer says that it is JSON
}

type exchangeKey struct{}

// transport keeps all requests of a client within its budget.
type transport struct {
	next   http.RoundTripper
	budget *cloud.Budget
}

// RoundTrip answers the SDK's call for /metadata itself and sends all others.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && r.URL.Path == "/metadata" {
		return noMetadata(r), nil
	}
	seen, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		seen = &exchange{}
	}
	done, err := t.budget.Admit(r.Context(), seen.class)
	if err != nil {
		return nil, err
	}
	answer, err := t.next.RoundTrip(r)
	done(outcome(answer, err))
	if err != nil {
		return nil, err
	}
	seen.status = answer.StatusCode
	seen.requestID = answer.Header.Get("X-Request-Id")
	seen.empty = answer.StatusCode == http.StatusOK && answer.ContentLength == 0
	seen.json = strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json")
	answer.Body = &body{ReadCloser: answer.Body, left: longestBody}
	return answer, nil
}

func outcome(answer *http.Response, err error) cloud.Outcome {
	switch {
	case err != nil:
		return cloud.Lost
	case answer.StatusCode == http.StatusTooManyRequests:
		return cloud.Throttled
	}
	return cloud.Answered
}

// body is an answer's, bounded.
type body struct {
	io.ReadCloser
	left int
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
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
