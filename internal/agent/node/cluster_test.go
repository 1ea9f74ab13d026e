package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/kubetest"
	"github.com/macfleet/macfleet/internal/agent/slot"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/converge/document"
)

// cluster is an API server and a Mac's files, on which agents come and go.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
	clock  *clocktesting.FakeClock
	dir    string
	cancel context.CancelFunc
	ended  chan error

	slots  *slot.Gate
	events record.EventRecorder
	keeper *Keeper
	// still stops the clock.
	still atomic.Bool

	mu       sync.Mutex
	findings []health.Finding
	news     chan struct{}
	creates  int
	statii   int
	// createErr answers creates while it is set.
	createErr error
	// unrecorded counts creates of which the permit was not yet on the disk.
	unrecorded int
}

func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	t.Helper()
	c := &cluster{t: t, client: fake.NewClientset(objects...), clock: clocktesting.NewFakeClock(time.Now()), dir: t.TempDir(), slots: slot.New(2), news: make(chan struct{})}
	c.findings = fine().found
	c.client.PrependReactor("create", "nodes", c.onCreate)
	c.client.PrependReactor("patch", "nodes", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() == "status" {
			c.mu.Lock()
			c.statii++
			c.mu.Unlock()
		}
		return false, nil, nil
	})
	ticking, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticking.Done():
				return
			case <-ticker.C:
				if c.clock.HasWaiters() && !c.still.Load() {
					c.clock.Step(time.Second)
				}
			}
		}
	}()
	t.Cleanup(func() {
		c.stop()
		stop()
		<-done
		if c.unrecorded > 0 {
			t.Error("a Node was created before its permit was recorded as used")
		}
	})
	return c
}

func (c *cluster) onCreate(a k8stesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creates++
	if n, ok := a.(k8stesting.CreateAction).GetObject().(*corev1.Node); ok {
		n.UID = types.UID(fmt.Sprint("life-", c.creates)) // as an API server does
	}
	permit, err := permits{file: c.permitFile()}.read()
	used, usedErr := os.ReadFile(filepath.Join(c.dir, "used-permits.json"))
	if err != nil || usedErr != nil || permit == nil || !strings.Contains(string(used), permit.ID) {
		c.unrecorded++
	}
	return c.createErr != nil, nil, c.createErr
}

func (c *cluster) permitFile() string { return filepath.Join(c.dir, "join-permit.json") }

func (c *cluster) permit(id string) {
	c.t.Helper()
	data, err := json.Marshal(document.JoinPermit{ID: id, NotAfter: c.clock.Now().Add(100 * time.Hour)})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(c.permitFile(), data, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func self() Self {
	return Self{
		Config: document.AgentConfig{
			Host: document.Host{Name: "mac-1", ProviderID: ours, Address: "51.15.0.7", Zone: "fr-par-1", ServerType: "M2-M", Fleet: "ci"},
			Node: document.Node{MaxVMs: 2, Labels: map[string]string{"team": "ios"}},
		},
		Facts:   hostos.Facts{CPUs: 8, MemoryBytes: 16 << 30, BootSession: "boot", OSImage: "macOS 26.0 (25A354)", Kernel: "25.0.0", PlatformUUID: "ABC"},
		Disk:    hostos.Disk{TotalBytes: 256e9, FreeBytes: 200e9},
		Tool:    vm.Info{Name: "tart", Version: "2.32.1"},
		Version: "v0.1.0",
	}
}

func (c *cluster) start() {
	c.t.Helper()
	c.keeper = New(Options{
		Client: kubetest.Client(c.client), LeaseClient: kubetest.Client(c.client), Self: self(),
		PermitFile: c.permitFile(), StateDir: c.dir, Clock: c.clock,
		Health: c, Slots: c.slots, Events: c.events,
	})
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.ended = cancel, make(chan error, 1)
	keeper := c.keeper
	go func() { c.ended <- keeper.Run(ctx) }()
}

// Findings and Changed make the cluster what is found out about its host.
func (c *cluster) Findings() []health.Finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.findings
}

func (c *cluster) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.news
}

func (c *cluster) find(f ...health.Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findings = f
	close(c.news)
	c.news = make(chan struct{})
}

func (c *cluster) stop() {
	if c.cancel == nil {
		return
	}
	c.cancel()
	c.cancel = nil
	if err := <-c.ended; err != nil {
		c.t.Errorf("the keeper failed: %v", err)
	}
}

func (c *cluster) node() *corev1.Node {
	n, err := c.client.CoreV1().Nodes().Get(context.Background(), "mac-1", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

func (c *cluster) await(what string, done func() bool) {
	c.t.Helper()
	late := time.After(time.Minute)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-late:
			c.t.Fatalf("never happened: %s", what)
		}
	}
}

func (c *cluster) awaitReady() *corev1.Node {
	c.t.Helper()
	var n *corev1.Node
	c.await("the Node is Ready", func() bool {
		n = c.node()
		return n != nil && conditionOf(n, corev1.NodeReady) == corev1.ConditionTrue
	})
	return n
}

// looks lets the keeper look a few times more.
func (c *cluster) looks() {
	c.t.Helper()
	end := c.clock.Now().Add(10 * syncInterval)
	c.await("time passes", func() bool { return c.clock.Now().After(end) })
}

func (c *cluster) created() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.creates
}

func (c *cluster) deleteNode() {
	c.t.Helper()
	if err := c.client.CoreV1().Nodes().Delete(context.Background(), "mac-1", metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func conditionOf(n *corev1.Node, t corev1.NodeConditionType) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return ""
}
