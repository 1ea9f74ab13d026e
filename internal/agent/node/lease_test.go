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
	t    *testing.T
	to   string
	hole atomic.Bool
}

func (n *network) listen() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go n.carry(c)
		}
	}()
	return l.Addr().String()
}

func (n *network) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", n.to)
	if err != nil {
		return
	}
	defer far.Close()
	var dead atomic.Bool
	pipe := func(to, from net.Conn) {
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
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pipe(near, far)
	}()
	pipe(far, near)
	_ = far.Close()
	<-ended
}

// A twentieth of the real times, so that the hole of the test is one of half a minute.
const scale = 20

// The network between a Mac and its API server goes silent: nothing is refused, nothing
// arrives, and the connections from before are dead for ever. The Node may not be
// called NotReady for half a minute of that, and is back soon after a whole one.
func TestTheHeartbeatSurvivesASilentNetwork(t *testing.T) {
	const grace = 50 * time.Second // the node lifecycle controller's
	for name, c := range map[string]struct{ hole, mostBetween, mostAfter time.Duration }{
		"half a minute": {30 * time.Second, grace, 10 * time.Second},
		// A try began right before the end, over a connection that is lost.
		"nearly a minute": {56 * time.Second, 0, 10 * time.Second},
		"a minute":        {60 * time.Second, 0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &leaseServer{t: t}
			server := httptest.NewUnstartedServer(s)
			server.EnableHTTP2 = true
			server.StartTLS()
			t.Cleanup(server.Close)
			n := &network{t: t, to: server.Listener.Addr().String()}
			config := &rest.Config{Host: "https://" + n.listen(), Timeout: 5 * time.Second / scale}
			config.ContentType = "application/json"
			closeAll := identity.Rotating(config, server.Client().Transport.(*http.Transport).TLSClientConfig)
			client := newClient(t, config)
			var backs atomic.Int32
			h := heartbeat{
				leases: client.Leases("kube-node-lease"), name: "mac-1", clock: clock.RealClock{},
				trouble: closeAll, back: func() { backs.Add(1) }, complain: func(error) {},
				renewal: leaseRenewal / scale, retry: leaseRetry / scale,
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.run(ctx)
			}()
			awaitCount(t, s, 3)
			n.hole.Store(true)
			<-time.After(c.hole / scale) // the hole's length is what is tested
			n.hole.Store(false)
			healed := time.Now()
			awaitCount(t, s, s.count()+2)
			cancel()
			<-ended
			first, longest := s.after(healed)
			if first > c.mostAfter/scale {
				t.Errorf("renewed %s after the network was back, want %s at most", first*scale, c.mostAfter)
			}
			if c.mostBetween > 0 && longest > c.mostBetween/scale {
				t.Errorf("%s without a renewal, want %s at most", longest*scale, c.mostBetween)
			}
			if backs.Load() != 1 {
				t.Errorf("told %d times that it is back, want once", backs.Load())
			}
		})
	}
}

func awaitCount(t *testing.T, s *leaseServer, n int) {
	t.Helper()
	late := time.After(time.Minute)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for s.count() < n {
		select {
		case <-ticker.C:
		case <-late:
			t.Fatalf("%d renewals, want %d", s.count(), n)
		}
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
	c.manager.resendStatus()
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
