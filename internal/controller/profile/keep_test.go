package profile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

func TestKeep(t *testing.T) {
	const marks = `{"labels":["team","tier"],"taints":["mac:NoSchedule"]}`
	for name, c := range map[string]struct {
		kept       string
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
		"marks that nobody can read": {
			kept: "hello", labels: map[string]string{"tier": "1"}, want: wanted{map[string]string{"team": "ios"}, nil},
			wantLabels: map[string]string{"team": "ios", "tier": "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{}
			node.Labels, node.Spec.Taints = c.labels, c.taints
			if c.kept != "" {
				node.Annotations = map[string]string{infrav1.KeptAnnotation: c.kept}
			}
			if err := keep(node, c.want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.wantLabels, node.Labels); diff != "" {
				t.Errorf("labels (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(c.wantTaints, node.Spec.Taints); diff != "" {
				t.Errorf("taints (-want +got)\n%s", diff)
			}
			again := node.DeepCopy()
			if err := keep(again, c.want); err != nil || !cmp.Equal(node, again) {
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
	p.Spec.Node.Labels = map[string]string{"team": "ios", corev1.LabelOSStable: "linux"}
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
