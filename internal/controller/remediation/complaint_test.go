package remediation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

var fleet = map[string]string{"fleet": "builders"}

// looksAtDisk is a health check that looks at more than Ready.
func looksAtDisk() *clusterv1.MachineHealthCheck {
	return &clusterv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "builders"},
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: "macs", Selector: metav1.LabelSelector{MatchLabels: fleet},
			Checks: clusterv1.MachineHealthCheckChecks{
				UnhealthyNodeConditions:    []clusterv1.UnhealthyNodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}, {Type: "DiskBroken", Status: corev1.ConditionTrue}},
				UnhealthyMachineConditions: []clusterv1.UnhealthyMachineCondition{{Type: "Inspected", Status: metav1.ConditionFalse}},
			},
		},
	}
}

// readyBut is a Node that is Ready, and has one more condition.
func readyBut(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeStatus {
	return corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: kind, Status: status}}}
}

// A health check that looks at another condition than Ready is served like any: were the
// Node called well for being Ready, its Machine would stay unhealthy for ever.
func TestAReadyNodeOfWhichAHealthCheckComplainsIsMended(t *testing.T) {
	w := newWorld(t, func(o *objects) {
		o.node.Status = readyBut("DiskBroken", corev1.ConditionTrue)
	})
	w.settle()
	w.is(infrav1.ReasonRestartingAgent, infrav1.ReasonRestartingAgent)
	if said := conditions.GetMessage(w.remediation(), infrav1.RemediatedCondition); !strings.Contains(said, "the Node's condition DiskBroken is True") {
		t.Errorf("it says %q", said)
	}
	w.clock.Step(host.DefaultAgentRestartTimeout)
	w.settle()
	w.is(infrav1.ReasonRebooting, infrav1.ReasonRebooting)
	if !w.host().Spec.Reboot.Force {
		t.Error("the reboot waits for the Pods of the Node that is Ready")
	}
	w.rebooted()
	w.settle()
	w.clock.Step(host.DefaultRebootTimeout)
	w.settle()
	w.is(infrav1.ReasonExhausted, infrav1.ReasonExhausted)

	w.nodeReady() // and nothing else
	w.settle()
	w.is("", infrav1.ReasonRecovered)
}

// A reboot that waits for the Pods of a Node that came back waits for them no more once a
// health check complains of it, and does again when the Node is away.
func TestARebootIsForcedWhereAHealthCheckComplains(t *testing.T) {
	w := newWorld(t, func(o *objects) { o.remediation.Spec.AgentRestartTimeoutSeconds = ptr.To[int32](0) })
	for _, c := range []struct {
		node   corev1.NodeStatus
		forced bool
	}{
		{corev1.NodeStatus{}, false},
		{readyBut("DiskBroken", corev1.ConditionTrue), true},
		{corev1.NodeStatus{}, false},
	} {
		node := &corev1.Node{}
		w.get(client.ObjectKey{Name: key.Name}, node)
		node.Status = c.node
		w.setStatus(node)
		w.settle()
		if got := w.host().Spec.Reboot; got == nil || got.Force != c.forced {
			t.Errorf("of a Node with %+v: %+v, want forced %t", c.node.Conditions, got, c.forced)
		}
	}
}

func TestComplaint(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*clusterv1.MachineHealthCheck, *clusterv1.Machine, *corev1.Node)
		want   string
	}{
		"of a Node": {func(*clusterv1.MachineHealthCheck, *clusterv1.Machine, *corev1.Node) {}, "the Node's condition DiskBroken is True"},
		"of another status": {func(_ *clusterv1.MachineHealthCheck, _ *clusterv1.Machine, n *corev1.Node) {
			n.Status = readyBut("DiskBroken", corev1.ConditionFalse)
		}, ""},
		"of other Machines": {func(_ *clusterv1.MachineHealthCheck, m *clusterv1.Machine, _ *corev1.Node) { m.Labels = nil }, ""},
		"of another Cluster's": {func(h *clusterv1.MachineHealthCheck, _ *clusterv1.Machine, _ *corev1.Node) {
			h.Spec.ClusterName = "others"
		}, ""},
		"that selects nothing": {func(h *clusterv1.MachineHealthCheck, _ *clusterv1.Machine, _ *corev1.Node) {
			h.Spec.Selector = metav1.LabelSelector{}
		}, ""},
		"of a Machine": {func(_ *clusterv1.MachineHealthCheck, m *clusterv1.Machine, n *corev1.Node) {
			n.Status = corev1.NodeStatus{}
			conditions.Set(m, metav1.Condition{Type: "Inspected", Status: metav1.ConditionFalse, Reason: "Bad"})
		}, "the Machine's condition Inspected is False"},
		"of a Machine that's ok": {func(_ *clusterv1.MachineHealthCheck, m *clusterv1.Machine, n *corev1.Node) {
			n.Status = corev1.NodeStatus{}
			conditions.Set(m, metav1.Condition{Type: "Inspected", Status: metav1.ConditionTrue, Reason: "Good"})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			check, machine := looksAtDisk(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: fleet}, Spec: clusterv1.MachineSpec{ClusterName: "macs"}}
			node := &corev1.Node{Status: readyBut("DiskBroken", corev1.ConditionTrue)}
			c.change(check, machine, node)
			if got := complaint(looking([]clusterv1.MachineHealthCheck{*check}, machine), machine, node); got != c.want {
				t.Errorf("complaint %q, want %q", got, c.want)
			}
		})
	}
}

func TestAnyConditionOfANodeWakes(t *testing.T) {
	was := &corev1.Node{Status: readyBut("DiskBroken", corev1.ConditionTrue)}
	beat := was.DeepCopy()
	beat.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
	mended := &corev1.Node{Status: readyBut("DiskBroken", corev1.ConditionFalse)}
	for now, wakes := range map[*corev1.Node]bool{beat: false, mended: true} {
		if got := nodeChanges().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: now}); got != wakes {
			t.Errorf("%+v wakes: %t", now.Status.Conditions, got)
		}
	}
}
