package server

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/server/logs"
)

// What a kubelet answers to a query that it cannot read, or that makes no sense.
var (
	errQuery   = errors.New(`{"message": "Unable to decode query."}`)
	errOptions = errors.New(`{"message": "Invalid request."}`)
)

// logRequest is what the query of a request for logs asks for.
type logRequest struct {
	follow, previous bool
	stream           string
	options          logs.Options
}

// logRequestOf reads a query. It fails with errQuery or errOptions.
func logRequestOf(q url.Values, now time.Time) (logRequest, error) {
	r := logRequest{stream: corev1.LogStreamAll, follow: boolean(q, "follow"), previous: boolean(q, "previous")}
	r.options.Timestamps = boolean(q, "timestamps")
	tail, err := numberIn(withOldTail(q), "tailLines")
	if err != nil {
		return r, errQuery
	}
	limit, err := numberIn(q, "limitBytes")
	if err != nil {
		return r, errQuery
	}
	if r.options.Since, err = since(q, now); err != nil {
		return r, err
	}
	if q.Has("stream") {
		r.stream = q.Get("stream")
	}
	r.options.TailLines, r.options.LimitBytes = tail, limit
	return r, r.check()
}

// withOldTail knows the name that tailLines once had.
func withOldTail(q url.Values) url.Values {
	switch old := q.Get("tail"); old {
	case "":
		return q
	case "all":
		return nil
	default:
		return url.Values{"tailLines": {old}}
	}
}

// boolean is false only where it is not there, or says so.
func boolean(q url.Values, name string) bool {
	return q.Has(name) && q.Get(name) != "0" && !strings.EqualFold(q.Get(name), "false")
}

func numberIn(q url.Values, name string) (*int64, error) {
	if !q.Has(name) {
		return nil, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	return &n, err
}

func since(q url.Values, now time.Time) (time.Time, error) {
	seconds, err := numberIn(q, "sinceSeconds")
	if err != nil {
		return time.Time{}, errQuery
	}
	var at time.Time
	text := q.Get("sinceTime")
	timed := text != "" && text != "null"
	if timed {
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			return time.Time{}, errQuery
		}
	}
	switch {
	case seconds == nil:
		return at, nil
	case timed || *seconds < 1:
		return time.Time{}, errOptions
	}
	// More seconds than a duration can have is since ever.
	if *seconds > int64(time.Duration(1<<63-1)/time.Second) {
		return time.Time{}, nil
	}
	return now.Add(-time.Duration(*seconds) * time.Second), nil
}

func (r logRequest) check() error {
	o := r.options
	switch {
	case o.TailLines != nil && *o.TailLines < 0, o.LimitBytes != nil && *o.LimitBytes < 1:
		return errOptions
	case r.stream == corev1.LogStreamAll:
		return nil
	case r.stream != corev1.LogStreamStdout && r.stream != corev1.LogStreamStderr, o.TailLines != nil:
		return errOptions
	}
	return nil
}
