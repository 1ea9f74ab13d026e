// Package scaleway is the seam to Scaleway Apple silicon, on the official SDK. It
// turns the SDK's answers and errors into those of package cloud, guards against
// what the SDK lets through (identifiers in paths, empty answers, lost statuses)
// and keeps all calls within one budget. It decides nothing and retries nothing:
// that is the callers' part.
package scaleway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	iam "github.com/scaleway/scaleway-sdk-go/api/iam/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"
	"golang.org/x/time/rate"

	"github.com/macfleet/macfleet/internal/cloud"
)

// Deadlines of the calls. The slowest recorded GET took 14 s, but a reader can
// ask again; a list is several pages.
const (
	readTimeout  = 8 * time.Second
	writeTimeout = 10 * time.Second
	listTimeout  = 30 * time.Second
)

// pageSize is the largest the vendor allows.
const pageSize = 100

// Client is one project at the vendor. It is safe for concurrent use.
type Client struct {
	servers   *applesilicon.API
	keys      *iam.API
	projectID string
}

var _ cloud.Cloud = (*Client)(nil)

// New returns a client of the project, or an *OptionError. It sends nothing:
// CheckAccess proves the credentials.
func New(opts Options) (*Client, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	settings := []scw.ClientOption{
		scw.WithAuth(opts.AccessKey, opts.SecretKey),
		scw.WithDefaultProjectID(opts.ProjectID),
		scw.WithAPIURL(orDefault(opts.APIURL, DefaultAPIURL)),
		scw.WithHTTPClient(httpClient(opts)),
	}
	if opts.UserAgent != "" {
		settings = append(settings, scw.WithUserAgent(opts.UserAgent))
	}
	sdk, err := scw.NewClient(settings...)
	if err != nil {
		return nil, fmt.Errorf("setting up the Scaleway SDK: %w", err)
	}
	return &Client{
		servers: applesilicon.NewAPI(sdk), keys: iam.NewAPI(sdk), projectID: opts.ProjectID,
	}, nil
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
		Transport: &transport{next: next, limiter: rate.NewLimiter(rate.Limit(qps), max(1, int(qps)))},
		// The secret key's header would follow a redirect to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// call runs one SDK call under a deadline and classifies how it ended.
func call(ctx context.Context, timeout time.Duration, doing string, f func(scw.RequestOption) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	seen := &exchange{}
	err := f(scw.WithContext(context.WithValue(ctx, exchangeKey{}, seen)))
	if err == nil && seen.empty {
		return &cloud.Error{Kind: cloud.KindInvalid, Doing: doing, Message: "the vendor's answer is empty", RequestID: seen.requestID}
	}
	if err != nil {
		return classify(doing, seen, err)
	}
	return nil
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
