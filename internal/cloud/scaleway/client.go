// Package scaleway is the seam to Scaleway Apple silicon, on the official SDK. It
// turns the SDK's answers and errors into those of package cloud, guards against
// what the SDK lets through (identifiers in paths, empty answers, lost statuses)
// and keeps all calls within one budget. It decides nothing, and of what fails it asks
// again for a later page of a list alone: the rest is the callers' part.
package scaleway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	iam "github.com/scaleway/scaleway-sdk-go/api/iam/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/internal/cloud"
)

// form is what a call is like.
type form int

const (
	read form = iota
	write
	erase // a write without an answer
	list
)

// timeout of a call. The slowest recorded GET took 14 s, but a reader can ask
// again; a list is several pages.
func (f form) timeout() time.Duration {
	switch f {
	case write, erase:
		return 10 * time.Second
	case list:
		return 30 * time.Second
	}
	return 8 * time.Second
}

// class of its requests in the budget.
func (f form) class() cloud.Class {
	if f == list {
		return cloud.ClassList
	}
	return cloud.ClassAct
}

// pageSize is the largest the vendor allows.
const pageSize = 100

// mostPages ends a list whose pages repeat, also where the vendor's are small.
const mostPages = 1000

// Client is one project at the vendor. It is safe for concurrent use.
type Client struct {
	projectID string
	sessions  *sessions
}

var _ cloud.Cloud = (*Client)(nil)

// session is the SDK with one set of credentials.
type session struct {
	servers *applesilicon.API
	keys    *iam.API
	// read is when the credentials were.
	read time.Time
	// problem of those that came later, and are not used for it; empty: none came, or they are.
	problem string
}

// which tells the session's credentials from others, by when they were read: what is put into
// the Secret has no other name that everybody may know.
func (s *session) which() string {
	said := "this key was read at " + s.read.UTC().Format(time.RFC3339)
	if s.problem != "" {
		said += ", and what is there now is not used: " + s.problem
	}
	return said
}

// New returns a client of the project, or an *OptionError. It sends nothing:
// CheckAccess proves the credentials.
func New(opts Options) (*Client, error) {
	if opts.Source != nil {
		first, err := opts.Source()
		if err != nil {
			return nil, err
		}
		opts = opts.with(first)
	}
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	all, err := newSessions(opts)
	if err != nil {
		return nil, err
	}
	return &Client{projectID: opts.ProjectID, sessions: all}, nil
}

func newSession(opts Options, transport *http.Client, now time.Time) (*session, error) {
	settings := []scw.ClientOption{
		scw.WithAuth(opts.AccessKey, opts.SecretKey),
		scw.WithDefaultProjectID(opts.ProjectID),
		scw.WithAPIURL(cmp.Or(opts.APIURL, defaultAPIURL)),
		scw.WithHTTPClient(transport),
	}
	if opts.UserAgent != "" {
		settings = append(settings, scw.WithUserAgent(opts.UserAgent))
	}
	sdk, err := scw.NewClient(settings...)
	if err != nil {
		return nil, fmt.Errorf("setting up the Scaleway SDK: %w", err)
	}
	return &session{servers: applesilicon.NewAPI(sdk), keys: iam.NewAPI(sdk), read: now}, nil
}

func httpClient(opts Options) *http.Client {
	next := http.DefaultTransport
	if opts.HTTPClient != nil && opts.HTTPClient.Transport != nil {
		next = opts.HTTPClient.Transport
	}
	qps := opts.QPS
	if qps <= 0 {
		qps = DefaultQPS
	}
	return &http.Client{
		Transport: &transport{next: next, budget: cloud.NewBudget(cloud.BudgetOptions{QPS: qps, Clock: opts.Clock})},
		// The secret key's header would follow a redirect to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// call runs one SDK call under a deadline and classifies how it ended.
func (c *Client) call(ctx context.Context, f form, doing string, ask func(*session, scw.RequestOption) error) error {
	ctx, cancel := context.WithTimeout(ctx, f.timeout())
	defer cancel()
	seen := &exchange{class: f.class()}
	with := c.sessions.current()
	err := ask(with, scw.WithContext(context.WithValue(ctx, exchangeKey{}, seen)))
	if err == nil && seen.empty {
		return &cloud.Error{Kind: cloud.KindUnavailable, Doing: doing, Message: "the vendor's answer is empty", RequestID: seen.requestID}
	}
	if err != nil {
		failed := classify(doing, seen, err)
		failed.Key = with.which()
		return failed
	}
	if f == erase && seen.status != http.StatusNoContent {
		return &cloud.Error{Kind: cloud.KindUnavailable, Doing: doing, Message: "this is no answer to a deletion", RequestID: seen.requestID}
	}
	return nil
}
