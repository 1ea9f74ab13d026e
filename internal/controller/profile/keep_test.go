package profile

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/requeue"
)

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

func TestKeep(t *testing.T) {
	marks := kept{Labels: []string{"team", "tier"}, Taints: []string{"mac:NoSchedule"}}
	for name, c := range map[string]struct {
		kept       kept
		labels     map[string]string
		taints     []corev1.Taint
		want       wanted
		wantLabels map[string]string
		wantTaints []corev1.Taint
	}{
		"first sight": {
			labels: map[string]string{"foreign": "1"}, taints: []corev1.Taint{taint("node.kubernetes.io/not-ready", "", "NoExecute")},
			want:       wanted{map[string]string{"team": "ios"}, []corev1.Taint{taint("mac", "true", "NoSchedule")}},
			wantLabels: map[string]string{"foreign": "1", "team": "ios"},
			wantTaints: []corev1.Taint{taint("node.kubernetes.io/not-ready", "", "NoExecute"), taint("mac", "true", "NoSchedule")},
		},
		"somebody changed them": {
			kept: marks, labels: map[string]string{"team": "web"}, taints: []corev1.Taint{taint("mac", "false", "NoSchedule")},
			want:       wanted{map[string]string{"team": "ios", "tier": "1"}, []corev1.Taint{taint("mac", "true", "NoSchedule")}},
			wantLabels: map[string]string{"team": "ios", "tier": "1"}, wantTaints: []corev1.Taint{taint("mac", "true", "NoSchedule")},
		},
		"no longer wanted": {
			kept: marks, labels: map[string]string{"team": "ios", "tier": "1", "foreign": "1"},
			taints:     []corev1.Taint{taint("mac", "true", "NoSchedule"), taint("mac", "true", "NoExecute")},
			want:       wanted{map[string]string{"team": "ios"}, nil},
			wantLabels: map[string]string{"team": "ios", "foreign": "1"}, wantTaints: []corev1.Taint{taint("mac", "true", "NoExecute")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{}
			node.Labels, node.Spec.Taints = c.labels, c.taints
			if err := keep(node, c.kept, c.want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.wantLabels, node.Labels); diff != "" {
				t.Errorf("labels (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(c.wantTaints, node.Spec.Taints); diff != "" {
				t.Errorf("taints (-want +got)\n%s", diff)
			}
			again := node.DeepCopy()
			var noted kept
			if err := json.Unmarshal([]byte(node.Annotations[infrav1.KeptAnnotation]), &noted); err != nil {
				t.Fatal(err)
			}
			if err := keep(again, noted, c.want); err != nil || !cmp.Equal(node, again) {
				t.Errorf("kept twice it is another: %v\n%s", err, cmp.Diff(node, again))
			}
		})
	}
}

// Requirement 004: what a Node was given at its registration is not lost when
// somebody, or another version of the agent, takes it away. A Node that is another
// Mac's is left alone, and so is its providerID.
func TestRequirement004_LabelsAndTaintsOfNodesAreKept(t *testing.T) {
	p := builders()
	p.Spec.Node.Labels = map[string]infrav1.LabelValue{"team": "ios"}
	w := newWorld(t, append(three(revision()), p)...)
	other := w.node("c")
	other.Spec.ProviderID = "scw-applesilicon://fr-par-1/another"
	w.update(other)
	w.visit("builders")
	node := w.node("a")
	node.Labels = map[string]string{"foreign": "stays", corev1.LabelOSStable: "darwin"}
	node.Spec.Taints = nil
	w.update(node)
	w.visit("builders")
	node = w.node("a")
	labels := map[string]string{"foreign": "stays", corev1.LabelOSStable: "darwin", "team": "ios", infrav1.FleetLabel: "macfleet-builders"}
	if diff := cmp.Diff(labels, node.Labels); diff != "" {
		t.Errorf("labels (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Taint{taint("tuist.dev/macos", "true", "NoSchedule")}, node.Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got)\n%s", diff)
	}
	if node.Spec.ProviderID != providerID("a") {
		t.Errorf("providerID = %q", node.Spec.ProviderID)
	}
	if other = w.node("c"); other.Labels["team"] != "" || len(other.Spec.Taints) != 0 {
		t.Error("the Node of another Mac was changed")
	}
}

// A profile from before its fields were checked tells a Mac nothing about itself.
func TestFactsOfAMacAreNoProfiles(t *testing.T) {
	m := &infrav1.ScalewayAppleSiliconMachine{}
	m.Spec.FleetName = "ours"
	shared := document.Node{Labels: map[string]string{"team": "ios", corev1.LabelOSStable: "linux", infrav1.FleetLabel: "theirs"}}
	if diff := cmp.Diff(map[string]string{"team": "ios", infrav1.FleetLabel: "ours"}, want(shared, m).labels); diff != "" {
		t.Errorf("labels (-want +got)\n%s", diff)
	}
}

// One Node that the API server does not take keeps neither the other Nodes nor the
// turns and the status from going on, and is told.
func TestANodeThatCannotBeKeptBlindsNobody(t *testing.T) {
	invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), "a", nil)
	for name, c := range map[string]struct {
		err    error
		reason string
		again  time.Duration
	}{
		"refused":            {invalid, infrav1.ReasonNodeNotKept, unkeptDelay},
		"changed meanwhile":  {apierrors.NewConflict(corev1.Resource("nodes"), "a", errors.New("stale")), infrav1.RolledOutCondition, requeue.Delay},
		"gone meanwhile":     {apierrors.NewNotFound(corev1.Resource("nodes"), "a"), infrav1.RolledOutCondition, 0},
		"nothing is refused": {nil, infrav1.RolledOutCondition, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(three(revision()), builders())...)
			w.refuses = func(o client.Object) error {
				if _, is := o.(*corev1.Node); is && o.GetName() == "a" {
					return c.err
				}
				return nil
			}
			result := w.visit("builders")
			if got := w.condition(infrav1.RolledOutCondition); got.Reason != c.reason || (c.reason == infrav1.ReasonNodeNotKept) != strings.Contains(got.Message, "Node a") {
				t.Errorf("RolledOut = %s: %s, want %s", got.Reason, got.Message, c.reason)
			}
			if got := w.condition(infrav1.ReadyCondition); (got.Reason == infrav1.ReasonNodeNotKept) != (c.reason == infrav1.ReasonNodeNotKept) {
				t.Errorf("Ready = %s", got.Reason)
			}
			if result.RequeueAfter != c.again {
				t.Errorf("comes back after %s, want %s", result.RequeueAfter, c.again)
			}
			if len(w.node("c").Spec.Taints) != 1 {
				t.Error("the other Nodes are not kept")
			}
			w.refuses = nil
			w.visit("builders")
			if got := w.condition(infrav1.RolledOutCondition).Reason; got != infrav1.RolledOutCondition {
				t.Errorf("RolledOut = %s once the cause is mended", got)
			}
		})
	}
}

// A taint may evict guests on all Macs at once, so a pause holds it, too.
func TestAPauseLeavesTheNodesAsTheyAre(t *testing.T) {
	p := builders()
	p.Spec.Rollout.Paused = true
	w := newWorld(t, append(three(revision()), p)...)
	w.visit("builders")
	if node := w.node("a"); len(node.Spec.Taints) != 0 || node.Annotations[infrav1.KeptAnnotation] != "" {
		t.Errorf("a Node was changed during a pause: %v", node.Spec.Taints)
	}
	p = w.profile()
	p.Spec.Rollout.Paused = false
	w.update(p)
	w.visit("builders")
	if node := w.node("a"); len(node.Spec.Taints) != 1 {
		t.Error("the Node is not kept after the pause")
	}
}

// What cannot be on a Node is told, and no Node is touched.
func TestTaintsThatCannotBeAreTold(t *testing.T) {
	p := builders()
	p.Spec.Node.Taints = &[]infrav1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a", Effect: "NoSchedule"}}
	w := newWorld(t, append(three(revision()), p)...)
	w.visit("builders")
	if got := w.condition(infrav1.ReadyCondition); got.Reason != infrav1.ReasonInvalidProfile || !strings.Contains(got.Message, "a:NoSchedule is there twice") {
		t.Errorf("Ready = %s: %s", got.Reason, got.Message)
	}
	if len(w.node("a").Spec.Taints) != 0 {
		t.Error("a Node got taints that cannot be")
	}
}
