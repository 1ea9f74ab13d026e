package scaleway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/macfleet/macfleet/internal/cloud/scaleway"
)

// instant answers each request at once: a list with no server, else one server.
type instant struct{}

// RoundTrip implements http.RoundTripper.
func (instant) RoundTrip(r *http.Request) (*http.Response, error) {
	body := serverBody(nil)
	if strings.HasSuffix(r.URL.Path, "/servers") {
		body = `{"servers":[],"total_count":0}`
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// However many servers are looked at one by one, the zone is listed in time: by the
// lists all is decided that is.
func TestListsHaveTheirShareOfTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := scaleway.New(scaleway.Options{
			AccessKey: accessKey, SecretKey: secretKey, ProjectID: projectID, QPS: 10, HTTPClient: &http.Client{Transport: instant{}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		for range 40 {
			busy.Go(func() {
				for ctx.Err() == nil {
					if _, _, err := client.GetServer(ctx, zone, serverID); err != nil {
						time.Sleep(200 * time.Millisecond) // the budget is spent for now
					}
				}
			})
		}
		time.Sleep(5 * time.Second)
		for range 5 {
			began := time.Now()
			if _, err := client.ListServers(ctx, zone); err != nil || time.Since(began) > time.Second {
				t.Errorf("a list took %s: %v", time.Since(began), err)
			}
			time.Sleep(time.Second)
		}
		cancel()
		busy.Wait()
	})
}
