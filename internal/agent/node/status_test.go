package node

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/slot"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/macnode"
)

// fine is what a status is made of on a Mac that is well.
func fine() observation {
	return observation{
		found: []health.Finding{{Type: health.VirtualizationReady, Status: corev1.ConditionTrue, Reason: health.ReasonToolWorks}},
		slots: slot.State{Allocatable: 2},
	}
}

// The API server goes to the port that the Node names; 0 says that there is none.
func TestTheStatusNamesTheKubeletsPort(t *testing.T) {
	for name, c := range map[string]struct {
		port *int
		want string
	}{
		"usual": {nil, `"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}}`},
		"other": {ptr.To(10350), `"daemonEndpoints":{"kubeletEndpoint":{"Port":10350}}`},
		"off":   {ptr.To(0), `"daemonEndpoints":{"kubeletEndpoint":{"Port":0}}`},
	} {
		s := self()
		s.Config.Kubelet.Port = c.port
		r := reporter{self: s}
		patch, _, err := r.next(&corev1.Node{}, fine(), time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC))
		if err != nil || !strings.Contains(string(patch), c.want) {
			t.Errorf("%s: %s (%v)", name, patch, err)
		}
	}
}

func TestStatusIsSentOnChangeOrEveryFiveMinutes(t *testing.T) {
	start := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		after time.Duration
		edit  func(n *corev1.Node, s *observation)
		want  bool
	}{
		{"nothing", time.Minute, func(*corev1.Node, *observation) {}, false},
		{"five minutes", statusInterval, func(*corev1.Node, *observation) {}, true},
		{"a condition", time.Second, func(_ *corev1.Node, s *observation) { s.found[0].Status = corev1.ConditionFalse }, true},
		{"a leak", time.Second, func(_ *corev1.Node, s *observation) { s.slots = slot.State{Leaked: 1, Allocatable: 1} }, true},
		{"a foreign guest", time.Second, func(_ *corev1.Node, s *observation) { s.slots.Foreign = []string{"mine"} }, true},
		{"an image", time.Second, func(_ *corev1.Node, s *observation) { s.images = []corev1.ContainerImage{{Names: []string{"r/a:v1"}}} }, true},
		{"another life of the Node", time.Second, func(n *corev1.Node, _ *observation) { n.UID = "u2" }, true},
		{"Ready was made Unknown", time.Second, func(n *corev1.Node, _ *observation) {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}, true},
		{"another agent's version", time.Second, func(n *corev1.Node, _ *observation) { n.Labels[versionLabel] = "v0.0.9" }, true},
		{"a label of others", time.Second, func(n *corev1.Node, _ *observation) { n.Labels["rack"] = "b" }, false},
		{"a condition of others", time.Second, func(n *corev1.Node, _ *observation) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Other"})
		}, false},
	} {
		r := reporter{self: self()}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: types.UID("u1"), Labels: r.self.labels()}}
		patch, s, err := r.next(n, fine(), start)
		if err != nil || patch == nil {
			t.Fatalf("the first status: %v", err)
		}
		r.recordSent(n, s, start)
		n.Status.Conditions = s.Conditions
		n = n.DeepCopy()
		now := fine()
		c.edit(n, &now)
		if patch, _, err = r.next(n, now, start.Add(c.after)); err != nil || (patch != nil) != c.want {
			t.Errorf("%s: sent %v, err %v, want %v", c.name, patch != nil, err, c.want)
		}
	}
}

// The Node is Ready unless no guest can start; a leaked place lowers what it has room
// for instead.
func TestWhatTheNodeTells(t *testing.T) {
	lacking := health.Finding{Type: health.GUISessionReady, Status: corev1.ConditionFalse, Reason: health.ReasonNoSession, Message: "no session"}
	blocking := lacking
	blocking.Blocks = true
	for _, c := range []struct {
		name         string
		found        []health.Finding
		slots        slot.State
		ready        corev1.ConditionStatus
		licence      corev1.ConditionStatus
		reason       string
		allocatable  int64
		readyMessage string
	}{
		{"well", nil, slot.State{Allocatable: 2}, "True", "True", reasonSlotsFree, 2, "ready"},
		{"something lacks for a moment", []health.Finding{lacking}, slot.State{Allocatable: 2}, "True", "True", reasonSlotsFree, 2, "ready"},
		{"no guest can start", []health.Finding{blocking}, slot.State{Allocatable: 2}, "False", "True", reasonSlotsFree, 2, "GUISessionReady: NoConsoleSession: no session"},
		{"one place leaked", nil, slot.State{Allocatable: 1, Leaked: 1}, "True", "False", reasonSlotsLeaked, 1, "ready"},
		{"both leaked", nil, slot.State{Leaked: 2}, "True", "False", reasonSlotsLeaked, 0, "ready"},
		{"a foreign guest", nil, slot.State{Allocatable: 1, Foreign: []string{"mine"}}, "True", "True", reasonForeignGuests, 1, "ready"},
		{"a leak, and a foreign guest", nil, slot.State{Leaked: 1, Foreign: []string{"mine"}}, "True", "False", reasonForeignGuests, 0, "ready"},
	} {
		r := reporter{self: self()}
		_, s, err := r.next(&corev1.Node{}, observation{found: c.found, slots: c.slots}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		n := &corev1.Node{Status: s}
		if got := conditionOf(n, corev1.NodeReady); got != c.ready || !strings.Contains(s.Conditions[0].Message, c.readyMessage) {
			t.Errorf("%s: Ready is %s: %s", c.name, got, s.Conditions[0].Message)
		}
		last := s.Conditions[len(s.Conditions)-1]
		if last.Type != licenseSlotsHealthy || last.Status != c.licence || last.Reason != c.reason {
			t.Errorf("%s: %+v", c.name, last)
		}
		for _, name := range []corev1.ResourceName{corev1.ResourcePods, macnode.VMResource} {
			left, all := s.Allocatable[name], s.Capacity[name]
			if left.Value() != c.allocatable || all.Value() != 2 {
				t.Errorf("%s: %s of %s %s, want %d of 2", c.name, left.String(), all.String(), name, c.allocatable)
			}
		}
	}
}

func TestTransitionTimesStayWhereNothingChanged(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	old := []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
		{Type: health.VirtualizationReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
	}
	for _, c := range conditions(fine().found, fine().slots, old, now) {
		if kept := c.Type == corev1.NodeReady; kept == c.LastTransitionTime.Time.Equal(now) {
			t.Errorf("%s changed at %s", c.Type, c.LastTransitionTime)
		}
	}
}

func TestImagesKeepToTheLimits(t *testing.T) {
	var images []corev1.ContainerImage
	for range 60 {
		images = append(images, corev1.ContainerImage{Names: []string{"1", "2", "3", "4", "5", "6", "7"}})
	}
	if list := imageList(images); len(list) != 50 || len(list[0].Names) != 5 {
		t.Errorf("%d images of %d names", len(list), len(list[0].Names))
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

// Cluster API compares what a Machine names with what its Node shows.
func TestANodeShowsItsMachinesVersion(t *testing.T) {
	s := self()
	s.Config.Host.KubernetesVersion = "v1.35.2"
	if got := s.info().KubeletVersion; got != "v1.35.2" {
		t.Errorf("the Node shows %s", got)
	}
}

// Whatever a build calls itself, its Mac can register.
func TestAnyVersionIsALabel(t *testing.T) {
	for _, version := range []string{"v0.1.0", "", "0.1.0-dev+x", strings.Repeat("a", 62) + "-b", "-.-"} {
		s := self()
		s.Version = version
		if errs := validation.IsValidLabelValue(s.labels()[versionLabel]); len(errs) > 0 {
			t.Errorf("%q: %v", version, errs)
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
