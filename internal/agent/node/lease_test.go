package node

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/identity"
	"github.com/macfleet/macfleet/internal/agent/kube"
)

// leaseServer keeps one lease and remembers when it was renewed.
type leaseServer struct {
	t *testing.T

	mu      sync.Mutex
	lease   *coordinationv1.Lease
	renewed []time.Time
}

func (s *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		if s.lease == nil {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		_ = json.NewEncoder(w).Encode(s.lease)
		return
	}
	s.lease = &coordinationv1.Lease{}
	if err := json.NewDecoder(r.Body).Decode(s.lease); err != nil {
		s.t.Error(err)
	}
	s.renewed = append(s.renewed, time.Now())
	_ = json.NewEncoder(w).Encode(s.lease)
}

func (s *leaseServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.renewed)
}

// await waits for that many renewals.
func (s *leaseServer) await(n int) {
	s.t.Helper()
	for late := time.Now().Add(5 * time.Minute); s.count() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			s.t.Fatalf("%d renewals, want %d", s.count(), n)
		}
	}
}

// after returns how long the first renewal after a moment took, and the longest time
// without one so far.
func (s *leaseServer) after(at time.Time) (first, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.renewed {
		if i > 0 {
			longest = max(longest, r.Sub(s.renewed[i-1]))
		}
		if first == 0 && r.After(at) {
			first = r.Sub(at)
		}
	}
	return first, longest
}

// network carries connections to a server. While it is a hole, whatever is sent is
// lost without a word; connections that were open then, or opened meanwhile, never
// come back.
type network struct {
	arrived chan net.Conn
	closed  chan struct{}
	hole    atomic.Bool
}

func newNetwork() *network {
	return &network{arrived: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept, Close and Addr are the server's listener.
func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.arrived:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error {
	close(n.closed)
	return nil
}

func (n *network) Addr() net.Addr { return &net.TCPAddr{} }

func (n *network) dial(context.Context, string, string) (net.Conn, error) {
	client, near := net.Pipe()
	far, server := net.Pipe()
	var dead atomic.Bool
	go n.carry(far, near, &dead)
	go n.carry(near, far, &dead)
	select {
	case n.arrived <- server:
		return client, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// carry carries one direction of a connection, and ends both with it.
func (n *network) carry(to, from net.Conn, dead *atomic.Bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		count, err := from.Read(buffer)
		if err != nil {
			return
		}
		if n.hole.Load() {
			dead.Store(true)
		}
		if dead.Load() {
			continue
		}
		if _, err := to.Write(buffer[:count]); err != nil {
			return
		}
	}
}

// The network between a Mac and its API server goes silent: nothing is refused, nothing
// arrives, and the connections from before are dead for ever. The Node may not be
// called NotReady for half a minute of that, and is back soon after a whole one.
func TestTheHeartbeatSurvivesASilentNetwork(t *testing.T) {
	const grace = 50 * time.Second // the node lifecycle controller's
	with := httptest.NewUnstartedServer(nil)
	with.EnableHTTP2 = true
	with.StartTLS() // for its certificate
	with.Close()
	for name, c := range map[string]struct{ hole, mostBetween, mostAfter time.Duration }{
		"half a minute": {30 * time.Second, grace, 10 * time.Second},
		// A try began right before the end, over a connection that is lost.
		"nearly a minute": {56 * time.Second, 0, 10 * time.Second},
		"a minute":        {60 * time.Second, 0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, n := &leaseServer{t: t}, newNetwork()
				server := &http.Server{Handler: s, TLSConfig: with.TLS.Clone()}
				go func() { _ = server.ServeTLS(n, "", "") }()
				defer server.Close()
				config := &rest.Config{Host: "https://127.0.0.1", Timeout: 5 * time.Second, Dial: n.dial}
				config.ContentType = "application/json"
				closeAll := identity.Rotating(config, with.Client().Transport.(*http.Transport).TLSClientConfig)
				defer closeAll()
				backs := 0
				h := heartbeat{
					leases: newClient(t, config).Leases("kube-node-lease"), name: "mac-1", clock: clock.RealClock{},
					trouble: closeAll, back: func() { backs++ }, complain: func(error) {},
					renewal: leaseRenewal, retry: leaseRetry,
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					h.run(ctx)
				}()
				s.await(3)
				n.hole.Store(true)
				time.Sleep(c.hole)
				n.hole.Store(false)
				healed := time.Now()
				s.await(s.count() + 2)
				cancel()
				<-ended
				first, longest := s.after(healed)
				if first > c.mostAfter {
					t.Errorf("renewed %s after the network was back, want %s at most", first, c.mostAfter)
				}
				if c.mostBetween > 0 && longest > c.mostBetween {
					t.Errorf("%s without a renewal, want %s at most", longest, c.mostBetween)
				}
				if backs != 1 {
					t.Errorf("told %d times that it is back, want once", backs)
				}
			})
		})
	}
}

// While the heartbeat was away the Node may have been called Unknown, and the watch
// that would tell may be dead: the status is sent again though nothing is new.
func TestTheStatusIsSentOnceTheHeartbeatIsBack(t *testing.T) {
	c := newCluster(t)
	c.permit("p1")
	c.start()
	c.awaitReady()
	c.looks()
	c.still.Store(true)
	before := c.sent()
	c.keeper.resendStatus()
	c.await("a status", func() bool { return c.sent() > before })
}

func (c *cluster) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.statii
}

// Whoever holds a lease of the Node's name is replaced by this life of the Node, and
// so is a lease that somebody deletes or changes meanwhile.
func TestTheLeaseIsOursWhateverHappensToIt(t *testing.T) {
	foreign := &coordinationv1.Lease{}
	foreign.Namespace, foreign.Name = corev1.NamespaceNodeLease, "mac-1"
	c := newCluster(t, foreign)
	c.permit("p1")
	c.start()
	n := c.awaitReady()
	leases := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	ours := func() bool {
		l, err := leases.Get(t.Context(), "mac-1", metav1.GetOptions{})
		return err == nil && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == "mac-1" &&
			len(l.OwnerReferences) == 1 && l.OwnerReferences[0].UID == n.UID && *l.Spec.LeaseDurationSeconds == leaseSeconds
	}
	c.await("our lease", ours)
	if err := leases.Delete(t.Context(), "mac-1", metav1.DeleteOptions{}); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Fatal(err)
	}
	c.await("another lease", ours)
}

func newClient(t *testing.T, config *rest.Config) kube.Client {
	t.Helper()
	kinds, err := kube.NewKinds()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kinds.Client(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
