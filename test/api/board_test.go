package api

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/macfleet/macfleet/internal/cli/board"
	"github.com/macfleet/macfleet/internal/cli/cluster"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// cuttable is the way to the API server, as somebody: cut, it refuses connections.
type cuttable struct {
	address string
	handler http.Handler
	server  *http.Server
}

func newCuttable(t *testing.T, as string) *cuttable {
	t.Helper()
	direct := rest.CopyConfig(apiConfig)
	direct.Impersonate = rest.ImpersonationConfig{UserName: as, Groups: []string{"system:authenticated"}}
	transport, err := rest.TransportFor(direct)
	must(t, err)
	to, err := url.Parse(direct.Host)
	must(t, err)
	c := &cuttable{address: "127.0.0.1:0", handler: &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
	}}
	c.join(t)
	t.Cleanup(c.cut)
	return c
}

func (c *cuttable) join(t *testing.T) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", c.address)
	must(t, err)
	c.address = listener.Addr().String()
	server := &http.Server{Handler: c.handler, ReadHeaderTimeout: rights}
	c.server = server
	go func() { _ = server.Serve(listener) }() // until it is closed
}

// cut waits for no request: a watch that came just now would never end.
func (c *cuttable) cut() { _ = c.server.Close() }

// Who may see half sees that half: a fleet's author that of a namespace, whether a manager
// works there among it.
func TestTheBoardOfAFleetAuthor(t *testing.T) {
	config := &rest.Config{Host: "http://" + newCuttable(t, fleetAuthor).address, QPS: 100, Burst: 200}
	c, err := cluster.NewClient(config)
	must(t, err)
	watches, err := cluster.NewCache(config, "default")
	must(t, err)
	feed, err := board.NewFeed(t.Context(), c, watches, "default")
	must(t, err)
	must(t, feed.Start(t.Context()))
	s, err := feed.Snapshot(t.Context())
	must(t, err)
	for kind, lacks := range map[snapshot.Kind]bool{
		snapshot.Hosts: true, snapshot.Pods: true, snapshot.Nodes: true,
		snapshot.Machines: false, snapshot.HealthChecks: false, snapshot.Leases: false,
	} {
		if got := s.Lacks(kind) != ""; got != lacks {
			t.Errorf("lacks %s: %v, want %v", kind, got, lacks)
		}
	}
}

// The board shows what its user may see, follows it, and says when it cannot.
func TestTheBoardFollowsTheCluster(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	way := newCuttable(t, hostOperator)
	config := &rest.Config{Host: "http://" + way.address, QPS: 100, Burst: 200}
	c, err := cluster.NewClient(config)
	must(t, err)
	watches, err := cluster.NewCache(config, "")
	must(t, err)
	feed, err := board.NewFeed(ctx, c, watches, "")
	must(t, err)
	must(t, feed.Start(ctx))

	shows := func(name string) bool {
		s, err := feed.Snapshot(ctx)
		must(t, err)
		if len(s.Missing) > 0 {
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

	must(t, feed.Trouble(ctx))
	way.cut()
	if trouble := feed.Trouble(ctx); trouble == nil || !strings.Contains(trouble.Error(), "cannot be reached") {
		t.Errorf("without a way to the cluster: %v", trouble)
	}
	if !shows(host.Name) {
		t.Error("what was seen before is gone")
	}
	way.join(t)
	later := newHost()
	must(t, api.Create(ctx, later))
	awaitShown(later.Name)
	must(t, feed.Trouble(ctx))
}
