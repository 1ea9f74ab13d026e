package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

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
