package show

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// pausedFleet has a Machine that runs and is paused, one that no manager has seen paused yet, and
// one of a paused Cluster.
func pausedFleet() *snapshot.Snapshot {
	s := clitest.Fleet()
	s.Hosts, s.Pods, s.Zones, s.Profiles, s.Fleets = nil, nil, nil, nil, nil
	own := func(m *infrav1.ScalewayAppleSiliconMachine) {
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: "true"}
	}
	own(&s.Machines[0])
	told(&s.Machines[0], "ScalewayAppleSiliconMachine has the cluster.x-k8s.io/paused annotation")
	own(&s.Machines[1])
	told(&s.Machines[3], "Cluster spec.paused is set to true")
	s.Machines = s.Machines[:4]
	return s
}

// told: the manager has seen it.
func told(m *infrav1.ScalewayAppleSiliconMachine, message string) {
	m.Status.Conditions = append(m.Status.Conditions, clitest.Condition(infrav1.PausedCondition, metav1.ConditionTrue, infrav1.PausedCondition, message, 40*time.Minute))
}

func TestPausedMachinesAreShown(t *testing.T) {
	s := pausedFleet()
	clitest.Golden(t, "status-paused.txt", screen.Screen{}, StatusOf(s, reasons.Read()).Write)
	machines, err := Machines(s, false, "")
	if err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "machines-paused.txt", screen.Screen{}, machines.Write)
}

// nodeNow is a Machine's Node whose Ready has this status for a while.
func nodeNow(m *infrav1.ScalewayAppleSiliconMachine, ready corev1.ConditionStatus, ago time.Duration) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: clitest.Ago(ago)}}
	return n
}

// Nobody writes the NodeReady of a paused Machine: its Node is asked in its place.
func TestTheNodesOfPausedMachinesAreBelieved(t *testing.T) {
	const off = "NodeUnreachable: Node %s is not heard of, as the control plane noticed at %t: the Mac is off, cut off, or its agent does not run"
	yes, no, unknown := corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	for name, c := range map[string]struct {
		paused  bool
		says    string
		node    corev1.ConditionStatus
		ago     time.Duration
		unnamed bool
		want    string
		persons int
	}{
		"its Mac is off":             {paused: true, says: "NodeReady", node: unknown, ago: time.Hour, want: off, persons: 1},
		"its Mac went just now":      {paused: true, says: "NodeReady", node: unknown, ago: time.Minute, want: off},
		"not Ready":                  {paused: true, says: "NodeReady", node: no, ago: time.Hour, want: "NodeNotReady: Node %s is not Ready", persons: 1},
		"well":                       {paused: true, says: "NodeReady", node: yes, ago: time.Hour},
		"back since":                 {paused: true, says: infrav1.ReasonNodeUnreachable, node: yes, ago: time.Minute},
		"it is another's Node":       {paused: true, says: infrav1.ReasonProviderIDMismatch, node: yes, ago: time.Hour, want: "ProviderIDMismatch"},
		"its Node is not to be seen": {paused: true, says: "NodeReady", node: unknown, ago: time.Hour, unnamed: true},
		"not paused":                 {says: "NodeReady", node: unknown, ago: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			status := metav1.ConditionFalse
			if c.says == "NodeReady" {
				status = metav1.ConditionTrue
			}
			m := clitest.Machine(1, "Running", clitest.Condition(infrav1.NodeReadyCondition, status, c.says, "", 2*time.Hour))
			const pause = "Cluster spec.paused is set to true"
			if c.paused {
				told(&m, pause)
			}
			n := nodeNow(&m, c.node, c.ago)
			if c.unnamed {
				n.Name = "another"
			}
			s := &snapshot.Snapshot{At: clitest.Now(), Machines: []infrav1.ScalewayAppleSiliconMachine{m}, Nodes: []corev1.Node{n}}
			want := strings.NewReplacer("%s", m.Name, "%t", stamp(&n.Status.Conditions[0].LastTransitionTime)).Replace(c.want)
			why := strings.TrimPrefix(strings.TrimPrefix(whyNot(s, &m), "Paused: "+pause), "; ")
			if why != want {
				t.Errorf("the table of Machines says %q, want %q", why, want)
			}
			all := StatusOf(s, reasons.Read())
			if len(all.Person) != c.persons && want != "ProviderIDMismatch" {
				t.Errorf("needs a person: %+v", all.Person)
			}
			for _, i := range all.Person {
				if c.persons > 0 && (i.Because() != want+"; nobody looks at it while it is paused" || i.Command != "macfleet cluster resume macfleet -n "+m.Namespace || !i.Since.Equal(n.Status.Conditions[0].LastTransitionTime.Time)) {
					t.Errorf("%+v", i)
				}
			}
			if away := c.want == off && c.ago > patience; AwayForLong(s, &m) != away {
				t.Errorf("away for long: %t", !away)
			}
			if NeedsNodes(s) != c.paused {
				t.Error("whether its Node is needed")
			}
		})
	}
}

// Somebody who is at the Mac looks at it.
func TestAPausedMacInMaintenanceIsNotAlone(t *testing.T) {
	s := pausedFleet()
	s.Hosts = clitest.Fleet().Hosts
	m := &s.Machines[0]
	s.Nodes = []corev1.Node{nodeNow(m, corev1.ConditionUnknown, time.Hour)}
	core := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
	core.Status.Conditions = []metav1.Condition{clitest.Condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionFalse, clusterv1.MachineNodeNotHealthyReason, "", time.Hour)}
	s.CoreMachines = []clusterv1.Machine{core}
	if c := pressureOf(s, m); c != nil {
		t.Errorf("tells of it twice: %+v", c)
	}
	for _, inHand := range []bool{false, true} {
		if inHand {
			s.Hosts[0].Spec.Maintenance = &infrav1.Maintenance{}
		}
		alone, is := LeftAlone(s, m, *Hindrance(Conditions(s, m)))
		if is == inHand || alone.Command != "macfleet machine resume "+m.Name+" -n "+m.Namespace {
			t.Errorf("in maintenance %t: %t, %+v", inHand, is, alone)
		}
	}
}

func TestWhatPausesAMachine(t *testing.T) {
	const own = "ScalewayAppleSiliconMachine has the cluster.x-k8s.io/paused annotation"
	for name, c := range map[string]struct {
		change func(m *infrav1.ScalewayAppleSiliconMachine)
		want   string
	}{
		"nothing": {func(*infrav1.ScalewayAppleSiliconMachine) {}, ""},
		"no longer": {func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.PausedCondition, metav1.ConditionFalse, "NotPaused", "", time.Hour)}
		}, ""},
		"its annotation": {func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, own},
		"its Cluster": {func(m *infrav1.ScalewayAppleSiliconMachine) { told(m, "Cluster spec.paused is set to true") }, "Cluster spec.paused is set to true"},
		"its own, deleted": {func(m *infrav1.ScalewayAppleSiliconMachine) {
			told(m, own)
			at := clitest.Ago(time.Minute)
			m.DeletionTimestamp = &at
		}, ""},
		"its Cluster, deleted": {func(m *infrav1.ScalewayAppleSiliconMachine) {
			at := clitest.Ago(time.Minute)
			m.DeletionTimestamp, m.Labels[clusterv1.ClusterNameLabel] = &at, "held"
		}, "Cluster spec.paused is set to true, which holds its deletion up"},
	} {
		m := clitest.Machine(1, "Running")
		c.change(&m)
		got := ""
		held := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: "held"}, Spec: clusterv1.ClusterSpec{Paused: ptr.To(true)}}
		if p := PauseOf(&snapshot.Snapshot{Clusters: []clusterv1.Cluster{held}}, &m); p != nil {
			got = p.Message
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
