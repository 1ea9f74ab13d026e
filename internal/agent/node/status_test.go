package node

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/converge/document"
)

func TestStatusIsSentOnChangeOrEveryFiveMinutes(t *testing.T) {
	start := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	fine := Health{Disk: hostos.Disk{TotalBytes: 100, FreeBytes: 50}}
	for _, c := range []struct {
		name  string
		after time.Duration
		edit  func(n *corev1.Node, h *Health, images *[]vm.Image)
		want  bool
	}{
		{"nothing", time.Minute, func(*corev1.Node, *Health, *[]vm.Image) {}, false},
		{"five minutes", statusInterval, func(*corev1.Node, *Health, *[]vm.Image) {}, true},
		{"a condition", time.Second, func(_ *corev1.Node, h *Health, _ *[]vm.Image) { h.Tool = errors.New("gone") }, true},
		{"a little less disk", time.Second, func(_ *corev1.Node, h *Health, _ *[]vm.Image) { h.Disk.FreeBytes-- }, false},
		{"an image", time.Second, func(_ *corev1.Node, _ *Health, i *[]vm.Image) { *i = []vm.Image{{Name: "r/a:v1"}} }, true},
		{"another life of the Node", time.Second, func(n *corev1.Node, _ *Health, _ *[]vm.Image) { n.UID = "u2" }, true},
		{"Ready was made Unknown", time.Second, func(n *corev1.Node, _ *Health, _ *[]vm.Image) {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}, true},
		{"a condition of others", time.Second, func(n *corev1.Node, _ *Health, _ *[]vm.Image) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Other"})
		}, false},
	} {
		r := reporter{self: self()}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: types.UID("u1")}}
		patch, s, err := r.next(n, fine, nil, start)
		if err != nil || patch == nil {
			t.Fatalf("the first status: %v", err)
		}
		r.took(n, s, start)
		n.Status.Conditions = s.Conditions
		n = n.DeepCopy()
		h, images := fine, []vm.Image(nil)
		c.edit(n, &h, &images)
		if patch, _, err = r.next(n, h, images, start.Add(c.after)); err != nil || (patch != nil) != c.want {
			t.Errorf("%s: sent %v, err %v, want %v", c.name, patch != nil, err, c.want)
		}
	}
}

func TestConditions(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	bad := errors.New("bad")
	for _, c := range []struct {
		name string
		h    Health
		want map[corev1.NodeConditionType]corev1.ConditionStatus
	}{
		{"fine", Health{Disk: hostos.Disk{TotalBytes: 1000, FreeBytes: 100}}, map[corev1.NodeConditionType]corev1.ConditionStatus{
			corev1.NodeReady: "True", corev1.NodeMemoryPressure: "False", corev1.NodeDiskPressure: "False", corev1.NodePIDPressure: "False",
		}},
		{"pressed", Health{Disk: hostos.Disk{TotalBytes: 1000, FreeBytes: 99}, Pressure: hostos.Pressure{Memory: true, Processes: true}}, map[corev1.NodeConditionType]corev1.ConditionStatus{
			corev1.NodeReady: "True", corev1.NodeMemoryPressure: "True", corev1.NodeDiskPressure: "True", corev1.NodePIDPressure: "True",
		}},
		{"unknown", Health{Tool: bad, DiskErr: bad, PressureErr: bad}, map[corev1.NodeConditionType]corev1.ConditionStatus{
			corev1.NodeReady: "False", corev1.NodeMemoryPressure: "Unknown", corev1.NodeDiskPressure: "Unknown", corev1.NodePIDPressure: "Unknown",
		}},
	} {
		got := map[corev1.NodeConditionType]corev1.ConditionStatus{}
		old := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
		for _, condition := range conditions(c.h, old, now) {
			got[condition.Type] = condition.Status
			kept := condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
			if kept == condition.LastTransitionTime.Time.Equal(now) {
				t.Errorf("%s: %s changed at %s", c.name, condition.Type, condition.LastTransitionTime)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestTaintsAreTheConfigurations(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []document.Taint
		want int
	}{
		{"none said", nil, 1},
		{"none wanted", []document.Taint{}, 0},
		{"others", []document.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "b", Effect: "NoExecute"}}, 2},
	} {
		s := self()
		s.Config.Node.Taints = c.in
		if got := s.object().Spec.Taints; len(got) != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestKubeletVersion(t *testing.T) {
	for own, want := range map[string]string{
		"v0.1.0":      "v1.36.4-macfleet.0.1.0",
		"0.1.0-dev+x": "v1.36.4-macfleet.0.1.0-dev-x",
		"":            "v1.36.4-macfleet",
	} {
		if got := kubeletVersion(own); got != want {
			t.Errorf("%q: %s, want %s", own, got, want)
		}
	}
}
