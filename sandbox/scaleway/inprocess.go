package scaleway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// errDropped is what a client in the same process sees of a connection that the
// vendor closed.
var errDropped = errors.New("the vendor closed the connection")

// RoundTripper reaches the vendor, and its control API, without a socket: what a
// client sends through it is answered on the client's own goroutine. With
// [Options.Inline] and an [Options.Random] of the caller's, the same calls at the
// same times get the same answers.
//
// A dropped connection is an error. A call that is never answered ends with its
// context; with Inline it fails at once, as [os.ErrDeadlineExceeded].
func (v *Vendor) RoundTripper() http.RoundTripper { return inProcess{v} }

type inProcess struct{ vendor *Vendor }

// RoundTrip answers one request. A copy is routed, as a transport may not change
// what it is given.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	inner := r.WithContext(r.Context())
	inner.RemoteAddr = "127.0.0.1:0"
	inner.RequestURI = r.URL.RequestURI()
	if inner.Body == nil {
		inner.Body = http.NoBody
	}
	out := &answer{header: http.Header{}}
	p.vendor.ServeHTTP(out, inner)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if out.failure != nil {
		return nil, out.failure // bare: the client wraps it, and asks it for its Timeout
	}
	return out.response(r), nil
}

// answer is an [http.ResponseWriter] in memory.
type answer struct {
	header  http.Header
	status  int
	body    bytes.Buffer
	failure error
}

func (a *answer) Header() http.Header { return a.header }

// WriteHeader keeps the first status, as the real one does.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// cut ends the call without an answer.
func (a *answer) cut(timedOut bool) {
	a.failure = errDropped
	if timedOut {
		a.failure = os.ErrDeadlineExceeded
	}
}

func (a *answer) response(r *http.Request) *http.Response {
	a.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r,
	}
}
