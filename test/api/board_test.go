package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/macfleet/macfleet/internal/cli/board"
	"github.com/macfleet/macfleet/internal/cli/cluster"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// cuttable is the way to the API server, as somebody; cut: nobody answers.
func cuttable(t *testing.T, as string) (config *rest.Config, cut *atomic.Bool, server *httptest.Server) {
	t.Helper()
	direct := rest.CopyConfig(apiConfig)
	direct.Impersonate = rest.ImpersonationConfig{UserName: as, Groups: []string{"system:authenticated"}}
	transport, err := rest.TransportFor(direct)
	must(t, err)
	to, err := url.Parse(direct.Host)
	must(t, err)
	cut = &atomic.Bool{}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: 100, Burst: 200}, cut, server
}

// The board shows what its user may see, follows it, and says when it cannot.
func TestTheBoardFollowsTheCluster(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	config, cut, server := cuttable(t, hostOperator)
	c, err := cluster.NewClient(config)
	must(t, err)
	feed, err := board.NewFeed(ctx, c, "", func(failed func(error)) (cache.Cache, error) { return cluster.NewCache(config, "", failed) })
	must(t, err)
	must(t, feed.Start(ctx))

	shows := func(name string) bool {
		s, err := feed.Snapshot(ctx)
		must(t, err)
		if s.Lacks(snapshot.Pods) == "" || s.Lacks(snapshot.Hosts) != "" {
			t.Fatalf("a host operator lacks %v", s.Missing)
		}
		for i := range s.Hosts {
			if s.Hosts[i].Name == name {
				return true
			}
		}
		return false
	}
	awaitShown := func(name string) {
		t.Helper()
		must(t, wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, rights, true, func(context.Context) (bool, error) {
			return shows(name), nil
		}))
	}
	host := newHost()
	if shows(host.Name) {
		t.Fatal("a host is shown that is not there")
	}
	must(t, api.Create(ctx, host))
	select {
	case <-feed.Changed():
	case <-time.After(rights):
		t.Error("nothing is said to have changed")
	}
	awaitShown(host.Name)

	cut.Store(true)
	server.CloseClientConnections()
	must(t, wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, rights, true, func(ctx context.Context) (bool, error) {
		trouble := feed.Trouble(ctx)
		return trouble != nil && strings.Contains(trouble.Error(), "cannot answer now"), nil
	}))
	if !shows(host.Name) {
		t.Error("what was seen before is gone")
	}
	cut.Store(false)
	later := newHost()
	must(t, api.Create(ctx, later))
	awaitShown(later.Name)
	must(t, feed.Trouble(ctx))
}
