package node

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/macnode"
)

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
		"macfleet.dev/agent-version": "v0.1.0",
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

// Its Node is made with what core copies from a Machine later, and without the taint that
// says to wait for that.
func TestContract_ANodeComesWithItsLabelsAndTaints(t *testing.T) {
	c := newCluster(t)
	c.permit("p1")
	var made *corev1.Node
	c.client.PrependReactor("create", "nodes", func(a k8stesting.Action) (bool, runtime.Object, error) {
		made = a.(k8stesting.CreateAction).GetObject().(*corev1.Node).DeepCopy()
		return false, nil, nil
	})
	c.start()
	c.awaitReady()
	if made.Labels["team"] != "ios" || made.Labels["tuist.dev/fleet"] != "ci" {
		t.Errorf("it is made with the labels %v", made.Labels)
	}
	if d := cmp.Diff([]corev1.Taint{{Key: "tuist.dev/macos", Value: "true", Effect: corev1.TaintEffectNoSchedule}}, made.Spec.Taints); d != "" {
		t.Errorf("it is made with other taints (-want +got):\n%s", d)
	}
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

func TestContract_ANodeHasItsMacsProviderID(t *testing.T) {
	named := func(id string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1", UID: "u1"}, Spec: corev1.NodeSpec{ProviderID: id}}
	}
	for name, there := range map[string]*corev1.Node{"none yet": nil, "without one": named(""), "ours": named(ours)} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			if there != nil {
				c = newCluster(t, there)
			}
			c.permit("p1")
			c.start()
			if got := c.awaitReady().Spec.ProviderID; got != ours {
				t.Errorf("providerID %q, want %q", got, ours)
			}
		})
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

// An agent is upgraded in place: its Node stays, and shows the version that runs.
func TestAnUpgradedAgentShowsItsVersion(t *testing.T) {
	made := self().object()
	made.Labels[versionLabel], made.Labels["team"] = "v0.0.9", "of people"
	c := newCluster(t, made)
	c.start()
	c.await("the Node shows the agent's version", func() bool { return c.node().Labels[versionLabel] == "v0.1.0" })
	if team := c.node().Labels["team"]; team != "of people" || c.created() != 0 {
		t.Errorf("the label of others is %q, %d creates", team, c.created())
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

// A leak shows at once: its news wakes the keeper although no time passes.
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
		left := c.node().Status.Allocatable[macnode.VMResource]
		return left.Value() == 1 && conditionOf(c.node(), licenseSlotsHealthy) == corev1.ConditionFalse
	})
	if conditionOf(c.node(), corev1.NodeReady) != corev1.ConditionTrue {
		t.Error("a Node with one place left is not Ready")
	}
}
