package board

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// busy is a fleet with one of each trouble, whose first Mac has a guest.
func busy() *snapshot.Snapshot {
	s := clitest.Fleet()
	mac := s.Machines[0].Name
	s.Nodes = []corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{Name: mac},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}},
	}}
	for name, phase := range map[string]corev1.PodPhase{"build-9": corev1.PodRunning, "old": corev1.PodSucceeded} {
		s.Pods = append(s.Pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: name}, Spec: corev1.PodSpec{NodeName: mac}, Status: corev1.PodStatus{Phase: phase},
		})
	}
	s.Machines[1].Status.Phase = "Unreachable" // its Mac has lost its power
	for n := range recent + 2 {
		s.Events = append(s.Events, corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprint(n)},
			InvolvedObject: corev1.ObjectReference{Kind: "ScalewayAppleSiliconHost", Name: s.Hosts[6].Name},
			Reason:         "Reinstalling", Message: fmt.Sprintf("<b>try</b> %d", n), Type: corev1.EventTypeNormal, LastTimestamp: clitest.Ago(time.Duration(n) * time.Minute),
		})
	}
	s.Events[1].InvolvedObject = corev1.ObjectReference{Kind: "ScalewayAppleSiliconRemediation", Namespace: clitest.Namespace, Name: "r"}
	s.Missing = []snapshot.Missing{{Kind: snapshot.Clusters, Why: "you may not list them"}}
	return s
}

// paused are two Macs, of which one runs and one is off, whose Machines somebody has paused.
func paused() *snapshot.Snapshot {
	s := busy()
	s = &snapshot.Snapshot{At: s.At, Hosts: s.Hosts[:2], Machines: s.Machines[:2]}
	for i := range s.Machines {
		s.Machines[i].Annotations = map[string]string{clusterv1.PausedAnnotation: "true"}
	}
	return s
}

// A Mac that is off while its Machine is paused is told, although the Machine says Running.
func TestTheTileOfAPausedMacThatIsOff(t *testing.T) {
	s := paused()
	s.Nodes = busy().Nodes
	s.Nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	for _, tile := range tilesOf(s) {
		if off := tile.Owner == s.Machines[0].Name; off && (tile.Mood != "bad" || tile.Why != "Paused, NodeUnreachable") {
			t.Errorf("%+v", tile)
		}
	}
}

func newTestWriter(t *testing.T) writer {
	t.Helper()
	w, err := newWriter()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestThePageOfAFleet(t *testing.T) {
	w := newTestWriter(t)
	for name, s := range map[string]*snapshot.Snapshot{"page.html": busy(), "empty.html": {At: clitest.Now()}, "paused.html": paused()} {
		clitest.Golden(t, name, screen.Screen{}, func(out io.Writer, _ screen.Screen) error {
			p, err := w.parts(viewOf(s, reasons.Read(), ""))
			if err != nil {
				return err
			}
			html, err := w.page(p, 1)
			_, _ = io.WriteString(out, html)
			return err
		})
	}
}

func TestTheStoriesOfAFleet(t *testing.T) {
	w, s := newTestWriter(t), busy()
	for _, of := range []struct{ kind, namespace, name string }{
		{"host", "", s.Hosts[3].Name},
		{"machine", clitest.Namespace, s.Machines[2].Name},
		{"profile", clitest.Namespace, clitest.Builders},
		{"pod", "ci", "build-1"},
		{"cluster", clitest.Namespace, "macfleet"},
	} {
		story, err := storyOf(s, reasons.Read(), of.kind, of.namespace, of.name)
		if err != nil {
			t.Fatal(err)
		}
		clitest.Golden(t, "story-"+of.kind+".html", screen.Screen{}, func(out io.Writer, _ screen.Screen) error {
			html, err := w.story(story)
			_, _ = io.WriteString(out, html)
			return err
		})
	}
	for _, of := range [][3]string{{"host", "", s.Hosts[3].Name[:12]}, {"machine", "", s.Machines[2].Name}, {"secret", "ci", "a"}} {
		if _, err := storyOf(s, reasons.Read(), of[0], of[1], of[2]); err == nil {
			t.Errorf("there is a story of %s", of)
		}
	}
}

// What objects say is shown, and never taken for a page's own.
func TestNoObjectWritesThePage(t *testing.T) {
	const evil = `"><script>alert(1)</script>`
	s := busy()
	s.Hosts[4].Spec.Quarantine.Reason = evil
	s.Hosts[4].Status.Conditions[1].Message = evil
	s.Hosts[4].Status.Conditions[1].Reason = evil
	s.Pods[0].Status.Conditions[0].Message = evil
	s.Hosts[0].Spec.ClaimRef.Name = evil
	s.Events[0].Message = evil
	w := newTestWriter(t)
	p, err := w.parts(viewOf(s, reasons.Read(), evil))
	if err != nil {
		t.Fatal(err)
	}
	page, err := w.page(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	story, err := storyOf(s, reasons.Read(), "host", "", s.Hosts[4].Name)
	if err != nil {
		t.Fatal(err)
	}
	told, err := w.story(story)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page, "alert(1)"); n < 5 {
		t.Errorf("the page shows %d of what the objects say", n)
	}
	if !strings.Contains(told, "alert(1)") {
		t.Error("the story does not show what the object says")
	}
	if strings.Contains(page+told, "<script>alert") {
		t.Error("an object wrote a script into the page")
	}
}

func TestOnlyWhatChangedIsSent(t *testing.T) {
	w, second := newTestWriter(t), clitest.Fleet().Hosts[1].Name
	partsOf := func(change func(*snapshot.Snapshot)) parts {
		s := busy()
		change(s)
		p, err := w.parts(viewOf(s, reasons.Read(), ""))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	before := partsOf(func(*snapshot.Snapshot) {})
	for name, c := range map[string]struct {
		change func(*snapshot.Snapshot)
		want   []string
	}{
		"nothing":        {func(*snapshot.Snapshot) {}, nil},
		"one Mac's type": {func(s *snapshot.Snapshot) { s.Hosts[1].Status.Server.Type = "M4-S" }, []string{"host-" + second}},
		"a phase":        {func(s *snapshot.Snapshot) { s.Hosts[1].Status.Phase = "Claimed" }, []string{"host-" + second, "pool"}},
		"a Mac more": {func(s *snapshot.Snapshot) {
			more := s.Hosts[7]
			more.Name = "fr-par-1-more"
			s.Hosts = append(s.Hosts, more)
		}, []string{"pool", "tiles"}},
		"an event": {func(s *snapshot.Snapshot) { s.Events[0].Message = "another" }, []string{"events"}},
	} {
		changed := partsOf(c.change).since(before)
		if got := slices.Sorted(maps.Keys(changed)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q are sent, want %q", name, got, c.want)
		}
	}
	if all := before.since(parts{}); len(all["tiles"]) == 0 || len(all) != 7 {
		t.Errorf("to a page that knows nothing %q are sent", slices.Sorted(maps.Keys(all)))
	}
}

// A Machine that Cluster API alone has still has a story, too, as status names it.
func TestTheStoryOfAMachineThatStandsForNoMac(t *testing.T) {
	s := clitest.Fleet()
	left := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: "left", CreationTimestamp: clitest.Ago(time.Hour)}}
	left.Spec.InfrastructureRef.Kind, left.Spec.InfrastructureRef.Name = "ScalewayAppleSiliconMachine", "left"
	s.CoreMachines = append(s.CoreMachines, left)
	story, err := storyOf(s, reasons.Read(), "machine", clitest.Namespace, "left")
	if err != nil || len(story.Points) != 1 || len(story.Points[0].Commands) != 1 {
		t.Errorf("tells %+v, %v", story, err)
	}
	if _, err := storyOf(s, reasons.Read(), "machine", clitest.Namespace, "nonsense"); err == nil {
		t.Error("a Machine that there is not has a story")
	}
}
