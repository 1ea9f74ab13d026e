package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
)

// What keeps every controller away is part of the story.
func TestPausesAreTold(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	s.Clusters = []clusterv1.Cluster{{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: "macfleet"}, Spec: clusterv1.ClusterSpec{Paused: ptr.To(true)}}}
	m := &s.Machines[0]
	if p := point(t, Machine(s, book, m), infrav1.PausedCondition); p.About != "cluster macfleet" || len(p.Commands) == 0 {
		t.Errorf("a paused Cluster: %+v", p)
	}
	s.Clusters = nil
	m.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""}
	resume := []string{"macfleet machine resume " + m.Name + " -n " + m.Namespace}
	if p := point(t, Machine(s, book, m), infrav1.PausedCondition); p.About != "" || !slices.Equal(p.Commands, resume) {
		t.Errorf("a paused Machine: %+v", p)
	}
}

// The story of a paused Machine does not say that its Node is Ready when it is not, nor that
// anything passes by itself.
func TestNobodyLooksAtAPausedMachine(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	m := &s.Machines[0]
	m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	m.Status.Conditions = append(m.Status.Conditions, clitest.Condition(infrav1.UpToDateCondition, metav1.ConditionFalse, infrav1.ReasonDrifted, "waits for its turn", time.Hour))
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: nodeNotHeardOf, LastTransitionTime: clitest.Ago(9 * time.Minute)}}
	s.Nodes = []corev1.Node{node}
	s.Remediations = []infrav1.ScalewayAppleSiliconRemediation{{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}}
	s.Remediations[0].Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.RemediatedCondition, metav1.ConditionFalse, infrav1.ReasonRebooting, "", time.Hour)}
	story, nobody := Machine(s, book, m), "nothing: nobody looks at it while it is paused"
	resume := []string{"macfleet machine resume " + m.Name + " -n " + m.Namespace}
	if p := point(t, story, "Running"); p.Healthy || !strings.HasSuffix(p.Means, "its Node is not Ready now") || p.Next != "" {
		t.Errorf("its phase: %+v", p)
	}
	for _, reason := range []string{infrav1.ReasonNodeUnreachable, nodeNotHeardOf} {
		if p := point(t, story, reason); p.Next != nobody || !slices.Equal(p.Commands, resume) || p.You == "" {
			t.Errorf("%s: %+v", reason, p)
		}
	}
	for _, reason := range []string{infrav1.ReasonDrifted, infrav1.ReasonRebooting} {
		if p := point(t, story, reason); p.Next != "nothing while it is paused" {
			t.Errorf("%s: %+v", reason, p)
		}
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "p"}, Spec: corev1.PodSpec{NodeName: m.Name}}
	if p := point(t, Pod(s, book, &pod), infrav1.ReasonNodeUnreachable); p.Next != nobody {
		t.Errorf("the story of a Pod on it: %+v", p)
	}
	gone := clitest.Ago(time.Hour)
	pod.DeletionTimestamp = &gone
	if !slices.ContainsFunc(Pod(s, book, &pod).Points, func(p Point) bool { return strings.HasPrefix(p.Next, nothingHeard) }) {
		t.Errorf("the story of a Pod on it that is deleted: %+v", Pod(s, book, &pod).Points)
	}
	if p := point(t, Profile(s, book, &s.Profiles[0]), infrav1.ReasonNodeUnreachable); p.About != "machine "+m.Name {
		t.Errorf("the story of its profile: %+v", p)
	}
	s.Nodes[0].Status.Conditions[0].Status = corev1.ConditionTrue
	if p := point(t, Machine(s, book, m), "Running"); !p.Healthy {
		t.Errorf("of a Node that is Ready: %+v", p)
	}
}

// The condition of what belongs to a paused Cluster is explained, in each story that tells it.
func TestThePausedConditionIsExplained(t *testing.T) {
	paused := []metav1.Condition{clitest.Condition(infrav1.PausedCondition, metav1.ConditionTrue, infrav1.PausedCondition, "Cluster spec.paused is set to true", time.Minute)}
	s, book := clitest.Fleet(), reasons.Read()
	labels := map[string]string{clusterv1.ClusterNameLabel: "builds"}
	s.Zones[0].Labels, s.Zones[0].Status.Conditions = labels, paused
	s.ControlPlanes = []controlplanev1.ExternalControlPlane{{
		ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: "plane", Labels: labels},
		Status:     controlplanev1.ExternalControlPlaneStatus{Conditions: paused},
	}}
	for points, story := range map[int]Story{
		1: Cluster(s, book, &s.Zones[0]),
		2: Machine(s, book, &s.Machines[0]),
	} {
		story.Points = slices.DeleteFunc(story.Points, func(p Point) bool { return p.Reason != infrav1.PausedCondition })
		if len(story.Points) != points {
			t.Errorf("%s: %d points", story.Kind, len(story.Points))
		}
		for _, p := range story.Points {
			want := []string{"macfleet cluster resume builds -n " + clitest.Namespace}
			if !strings.Contains(p.Means, "the Cluster is paused") || p.Next != "nothing, until somebody acts" || !slices.Equal(p.Commands, want) {
				t.Errorf("%s: %+v", story.Kind, p)
			}
		}
	}
}
