package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

	slots   *slot.Gate
	events  record.EventRecorder
	manager *Manager
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
	c.manager = NewManager(Options{
		Client: c.client, LeaseClient: c.client, Self: self(),
		PermitFile: c.permitFile(), StateDir: c.dir, Clock: c.clock,
		Health: c, Slots: c.slots, Events: c.events,
	})
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.ended = cancel, make(chan error, 1)
	manager := c.manager
	go func() { c.ended <- manager.Run(ctx) }()
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
		c.t.Errorf("the manager failed: %v", err)
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

// looks lets the manager look a few times more.
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

func TestNodeIsMadeOnceAndComplete(t *testing.T) {
	c := newCluster(t)
	c.permit("p1")
	c.start()
	n := c.awaitReady()
	if n.Spec.ProviderID != ours {
		t.Errorf("providerID %q", n.Spec.ProviderID)
	}
	wantLabels := map[string]string{
		"kubernetes.io/os": "darwin", "kubernetes.io/arch": "arm64", "kubernetes.io/hostname": "mac-1",
		"topology.kubernetes.io/zone": "fr-par-1", "node.kubernetes.io/instance-type": "M2-M", "tuist.dev/fleet": "ci", "team": "ios",
	}
	if d := cmp.Diff(wantLabels, n.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]corev1.Taint{{Key: "tuist.dev/macos", Value: "true", Effect: corev1.TaintEffectNoSchedule}}, n.Spec.Taints); d != "" {
		t.Errorf("taints (-want +got):\n%s", d)
	}
	for _, well := range []corev1.NodeConditionType{health.VirtualizationReady, licenseSlotsHealthy} {
		if got := conditionOf(n, well); got != corev1.ConditionTrue {
			t.Errorf("%s is %q", well, got)
		}
	}
	got := map[string]string{}
	for name, q := range n.Status.Allocatable {
		got[string(name)] = q.String()
	}
	want := map[string]string{"cpu": "7500m", "memory": "14Gi", "ephemeral-storage": "229028480Ki", "pods": "2", "macfleet.dev/macos-vm": "2"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("allocatable (-want +got):\n%s", d)
	}
	i := n.Status.NodeInfo
	if i.KubeletVersion != "v1.36.4-macfleet.0.1.0" || i.ContainerRuntimeVersion != "tart://2.32.1" || i.OperatingSystem != "darwin" || i.BootID != "boot" {
		t.Errorf("info %+v", i)
	}
	c.await("the lease", func() bool {
		l, err := c.client.CoordinationV1().Leases("kube-node-lease").Get(context.Background(), "mac-1", metav1.GetOptions{})
		return err == nil && len(l.OwnerReferences) == 1 && l.OwnerReferences[0].Name == "mac-1"
	})
}

func TestDeletedNodeDoesNotComeBack(t *testing.T) {
	c := newCluster(t)
	c.permit("p1")
	c.start()
	c.awaitReady()
	c.deleteNode()
	c.looks()
	if n := c.node(); n != nil {
		t.Fatal("a deleted Node came back")
	}
	c.stop()
	c.start() // a new process remembers what the old one used
	c.looks()
	if n := c.node(); n != nil || c.created() != 1 {
		t.Fatalf("a restart brought a deleted Node back, %d creates", c.created())
	}
	c.permit("p2")
	c.awaitReady()
	if c.created() != 2 {
		t.Errorf("%d creates, want 2", c.created())
	}
}

func TestNoPermitNoNode(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.looks()
	if c.created() != 0 {
		t.Error("a Node was created without a permit")
	}
}

func TestUnreadableRecordOfPermitsCreatesNothing(t *testing.T) {
	c := newCluster(t)
	c.permit("p1")
	if err := os.WriteFile(filepath.Join(c.dir, "used-permits.json"), []byte("[torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.looks()
	if c.created() != 0 {
		t.Error("a Node was created although used permits cannot be known")
	}
}

func TestRefusedCreateIsTriedAgain(t *testing.T) {
	c := newCluster(t)
	c.permit("p1")
	c.createErr = apierrors.NewForbidden(corev1.Resource("nodes"), "mac-1", errors.New("not yet"))
	c.start()
	c.await("two tries", func() bool { return c.created() >= 2 })
	c.mu.Lock()
	c.createErr = nil
	c.mu.Unlock()
	c.awaitReady()
}

// A Node that the API server refuses, for a label of its or by a webhook, was not
// made: once the cause is mended the same permit works, also for a new process with
// another configuration. All other answers leave that open.
func TestARefusalGivesThePermitBack(t *testing.T) {
	nodes := corev1.Resource("nodes")
	kind := corev1.SchemeGroupVersion.WithKind("Node").GroupKind()
	for name, c := range map[string]struct {
		err  error
		back bool
	}{
		"bad request":      {apierrors.NewBadRequest("a label"), true},
		"forbidden":        {apierrors.NewForbidden(nodes, "mac-1", errors.New("a label")), true},
		"invalid":          {apierrors.NewInvalid(kind, "mac-1", nil), true},
		"unknown to it":    {apierrors.NewUnauthorized("who?"), false},
		"by a proxy":       {apierrors.NewGenericServerResponse(http.StatusForbidden, "POST", nodes, "mac-1", "no", 0, true), false},
		"conflict":         {apierrors.NewConflict(nodes, "mac-1", errors.New("later")), false},
		"exists":           {apierrors.NewAlreadyExists(nodes, "mac-1"), false},
		"too many":         {apierrors.NewTooManyRequests("later", 1), false},
		"its own failure":  {apierrors.NewInternalError(errors.New("etcd")), false},
		"timeout":          {apierrors.NewServerTimeout(nodes, "create", 1), false},
		"connection reset": {errors.New("connection reset by peer"), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			w.permit("p1")
			w.createErr = c.err
			w.start()
			w.await("a try", func() bool { return w.created() >= 1 })
			w.stop()
			w.createErr = nil
			tries := w.created()
			w.start()
			if c.back {
				w.awaitReady()
				return
			}
			w.looks()
			if w.created() != tries || w.node() != nil {
				t.Error("another process used a permit that may have made a Node")
			}
		})
	}
}

// A Node that is there although its creation was refused, by an answer to the
// second of two requests, has used the permit up: deleted, it does not come back.
func TestANodeThatIsSeenUsesThePermitUp(t *testing.T) {
	c := newCluster(t)
	c.permit("p1")
	c.createErr = apierrors.NewForbidden(corev1.Resource("nodes"), "mac-1", errors.New("the second of two"))
	c.start()
	c.await("a try", func() bool { return c.created() >= 1 })
	seen := self().object()
	seen.UID = "made-by-the-first"
	if err := c.client.Tracker().Add(seen); err != nil {
		t.Fatal(err)
	}
	c.awaitReady()
	c.mu.Lock()
	c.createErr = nil
	c.mu.Unlock()
	tries := c.created()
	c.deleteNode()
	c.looks()
	c.stop()
	c.start()
	c.looks()
	if c.created() != tries || c.node() != nil {
		t.Error("a Node that was deleted came back")
	}
}

func TestLostAnswerUsesThePermitUp(t *testing.T) {
	c := newCluster(t)
	c.permit("p1")
	c.createErr = errors.New("connection reset by peer")
	c.start()
	c.await("a try", func() bool { return c.created() == 1 })
	c.looks()
	if n := c.created(); n != 1 {
		t.Errorf("%d creates with one permit, although the first may have worked", n)
	}
}

func TestNodeOfAnotherMacIsLeftAlone(t *testing.T) {
	other := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "mac-1", UID: "u1"},
		Spec:       corev1.NodeSpec{ProviderID: "scw-applesilicon://fr-par-1/other"},
	}
	c := newCluster(t, other)
	c.permit("p1")
	c.start()
	c.looks()
	if d := cmp.Diff(other.Spec, c.node().Spec); d != "" || c.statii != 0 || c.created() != 0 {
		t.Errorf("%d status patches, %d creates, spec (-before +after):\n%s", c.statii, c.created(), d)
	}
	for _, a := range c.client.Actions() {
		if a.GetResource().Resource == "leases" {
			t.Errorf("another Mac's Node was kept alive: %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

func TestEmptyProviderIDIsFilled(t *testing.T) {
	c := newCluster(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1", UID: "u1"}})
	c.start()
	if n := c.awaitReady(); n.Spec.ProviderID != ours || c.created() != 0 {
		t.Errorf("providerID %q, %d creates", n.Spec.ProviderID, c.created())
	}
}

func TestForeignConditionsStay(t *testing.T) {
	c := newCluster(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "mac-1", UID: "u1"},
		Spec:       corev1.NodeSpec{ProviderID: ours},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "KernelDeadlock", Status: corev1.ConditionFalse}}},
	})
	c.start()
	if n := c.awaitReady(); conditionOf(n, "KernelDeadlock") != corev1.ConditionFalse {
		t.Errorf("conditions %+v", n.Status.Conditions)
	}
}

func TestReadyFollowsTheHost(t *testing.T) {
	c := newCluster(t)
	c.permit("p1")
	c.find()
	c.start()
	c.await("the Node", func() bool { return c.node() != nil })
	c.looks()
	if n := c.node(); len(n.Status.Conditions) > 0 {
		t.Errorf("a Node tells of a host that nobody has looked at: %+v", n.Status.Conditions)
	}
	c.find(fine().found...)
	c.awaitReady()
	c.find(health.Finding{Type: health.VirtualizationReady, Status: corev1.ConditionFalse, Reason: "ToolUnusable", Blocks: true})
	c.await("not Ready", func() bool { return conditionOf(c.node(), corev1.NodeReady) == corev1.ConditionFalse })
}

// A leak shows at once: its news wakes the manager although no time passes.
func TestALeakIsToldAtOnce(t *testing.T) {
	c := newCluster(t)
	c.permit("p1")
	c.start()
	c.awaitReady()
	c.slots.Adopt("a")
	c.looks()
	c.still.Store(true)
	c.slots.Limited([]vm.Machine{{Name: "tk-a-1", Running: true, MacOS: true}})
	c.await("one place", func() bool {
		left := c.node().Status.Allocatable[vmResource]
		return left.Value() == 1 && conditionOf(c.node(), licenseSlotsHealthy) == corev1.ConditionFalse
	})
	if conditionOf(c.node(), corev1.NodeReady) != corev1.ConditionTrue {
		t.Error("a Node with one place left is not Ready")
	}
}
