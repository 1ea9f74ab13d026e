package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
)

// A Machine without a Mac has no server whose name could be another.
func TestAMachineWithoutAMacWaitsForNoServersName(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	waits := func(m *infrav1.ScalewayAppleSiliconMachine, status metav1.ConditionStatus) bool {
		m.Status.Conditions = append(m.Status.Conditions, clitest.Condition(infrav1.BootstrappedCondition, status, infrav1.ReasonWaitingForHost, "", time.Minute))
		story := Machine(s, book, m)
		return slices.ContainsFunc(story.Points, func(p Point) bool { return p.Reason == infrav1.ReasonWaitingForHost })
	}
	if waits(&s.Machines[3], metav1.ConditionUnknown) {
		t.Error("a Machine that has no Mac tells of its server")
	}
	s.Machines[2].Status.Conditions = s.Machines[2].Status.Conditions[:1]
	if !waits(&s.Machines[2], metav1.ConditionFalse) {
		t.Error("a Machine whose server is not ready says nothing of it")
	}
}

// A change for a Mac that is dead comes to nothing while nobody mends it, and so does the end
// of its rollout.
func TestAChangeWaitsForADeadMac(t *testing.T) {
	for name, c := range map[string]struct {
		reason, upToDate, text string
		ago                    time.Duration
	}{
		"not heard of":        {infrav1.ReasonNodeUnreachable, infrav1.ReasonHeld, "nothing before its Mac is back, of which nothing is heard: no health check", time.Hour},
		"its Node is deleted": {infrav1.ReasonNodeMissing, "Drifted", "nothing before its Mac is back, of which nothing is heard: no health check", time.Hour},
		"it may come back":    {infrav1.ReasonNodeUnreachable, "Drifted", "it passes by itself", time.Minute},
		"its agent is ill":    {infrav1.ReasonNodeNotReady, "Drifted", "it passes by itself", time.Hour},
	} {
		s, book := clitest.Fleet(), reasons.Read()
		m, p := &s.Machines[0], &s.Profiles[0]
		m.Status.Conditions = []metav1.Condition{
			clitest.Condition(infrav1.NodeReadyCondition, metav1.ConditionFalse, c.reason, "", c.ago),
			clitest.Condition(infrav1.UpToDateCondition, metav1.ConditionFalse, c.upToDate, "", time.Minute),
		}
		s.CoreMachines = []clusterv1.Machine{{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}}
		p.Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.RolledOutCondition, metav1.ConditionFalse, infrav1.ReasonRollingOut, "5 of 6 Macs are done: 1 outdated", time.Hour)}
		told := point(t, Machine(s, book, m), c.upToDate)
		if !strings.HasPrefix(told.Next, c.text) || strings.Contains(strings.Join(told.Commands, " "), "drain") {
			t.Errorf("%s: next %q, type %q", name, told.Next, told.Commands)
		}
		dead := strings.HasPrefix(c.text, "nothing")
		rollout, want := point(t, Profile(s, book, p), infrav1.ReasonRollingOut), []string{"macfleet explain machine " + m.Name + " -n " + m.Namespace}
		if ends := rollout.Next == "it passes by itself"; ends == dead || dead && (!strings.HasSuffix(rollout.Next, "heard of "+m.Name) || !slices.Equal(rollout.Commands, want)) {
			t.Errorf("%s: the rollout: next %q, type %q", name, rollout.Next, rollout.Commands)
		}
	}
}

// Kubernetes' own word for a Node that is not heard of is explained, once, and with what its
// Machine waits for.
func TestANodeThatIsNotHeardOf(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	m := &s.Machines[0]
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodeReady} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."})
	}
	s.Nodes = []corev1.Node{node}
	m.Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.NodeReadyCondition, metav1.ConditionFalse, infrav1.ReasonNodeUnreachable, "", time.Hour)}
	s.CoreMachines = []clusterv1.Machine{{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}}
	var told []Point
	for _, p := range Machine(s, book, m).Points {
		if p.Reason == "NodeStatusUnknown" {
			told = append(told, p)
		}
	}
	if len(told) != 1 || told[0].Condition != "Ready" || !strings.HasPrefix(told[0].Means, "Kubernetes says so") || !strings.HasPrefix(told[0].Next, "nothing, until somebody acts: no health check") {
		t.Errorf("tells %+v", told)
	}
}

// Of a Mac that is lost nothing is expected any more, and what to do can be typed.
func TestALostMacIsNotWaitedFor(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	m := &s.Machines[5]
	m.Status.Conditions = append(m.Status.Conditions, clitest.Condition(infrav1.NodeReadyCondition, metav1.ConditionFalse, infrav1.ReasonNodeMissing, "", time.Hour))
	s.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: m.Name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}}}}}
	for _, p := range Machine(s, book, m).Points {
		if p.Reason == infrav1.ReasonNodeMissing || p.Reason == "NodeStatusUnknown" {
			t.Errorf("tells %+v", p)
		}
	}
	m.Status.Conditions[0].Reason = infrav1.ReasonClaimLost
	p := point(t, Machine(s, book, m), infrav1.ReasonClaimLost)
	if !slices.Contains(p.Commands, "kubectl -n "+m.Namespace+" delete machine "+m.Name) || !strings.Contains(p.You, "name the server "+m.Name+" again") {
		t.Errorf("what to do: %q, %q", p.You, p.Commands)
	}
}
