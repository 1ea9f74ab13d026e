package show

import (
	"testing"
	"time"

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
