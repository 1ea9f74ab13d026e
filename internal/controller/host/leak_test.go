package host

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// leakyNode is the Node of a Mac that has lost its places in boot-1.
func leakyNode(places string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "m-1"}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, serverID)},
		Status: corev1.NodeStatus{
			NodeInfo:    corev1.NodeSystemInfo{BootID: "boot-1"},
			Allocatable: corev1.ResourceList{"macfleet.dev/macos-vm": resource.MustParse(places)},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				{Type: "LicenseSlotsHealthy", Status: corev1.ConditionFalse, Reason: "SlotsLeaked"},
			},
		},
	}
}

func podIn(state corev1.ContainerState, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "build"}, Spec: corev1.PodSpec{NodeName: "m-1"},
		Status: corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{State: state}}},
	}
}

// leakAsked is a world whose machine controller has asked for the reboot of a leak.
func leakAsked(t *testing.T, node *corev1.Node) *world {
	t.Helper()
	w := inUse(t)
	w.must(w.client.Create(w.ctx, node))
	w.askReboot(host.LeakRebootID("boot-1"), false)
	return w
}

func TestAMacWithARunningGuestIsNeverRebootedForALeak(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, c := range map[string]struct {
		node *corev1.Node
		pod  *corev1.Pod
		want string // reason of Rebooted
	}{
		"a guest runs":            {leakyNode("0"), podIn(running, corev1.PodRunning), host.ReasonRebootWaiting},
		"a place is left":         {leakyNode("1"), nil, host.ReasonRebootWaiting},
		"healed":                  {healed(leakyNode("2")), nil, host.ReasonRebootDropped},
		"a VM of others runs":     {withForeignVM(leakyNode("0")), nil, host.ReasonRebootDropped},
		"it rebooted meanwhile":   {booted(leakyNode("0"), "boot-2"), nil, host.ReasonRebootDropped},
		"nobody answers on it":    {silent(leakyNode("0")), podIn(running, corev1.PodRunning), host.ReasonRebootDropped},
		"empty":                   {leakyNode("0"), nil, host.ReasonRebootTaken},
		"a Pod waits for a place": {leakyNode("0"), podIn(corev1.ContainerState{}, corev1.PodPending), host.ReasonRebootTaken},
	} {
		t.Run(name, func(t *testing.T) {
			w := leakAsked(t, c.node)
			if c.pod != nil {
				w.must(w.client.Create(w.ctx, c.pod))
			}
			w.until("decided", func() bool { return w.reason(host.RebootedCondition) != "" })
			for range 5 {
				_ = w.step()
			}
			reboots := w.calls("RebootServer")
			if got := w.reason(host.RebootedCondition); got != c.want || (reboots == 1) != (c.want == host.ReasonRebootTaken) || reboots > 1 {
				t.Errorf("%s, %d reboots, want %s", got, reboots, c.want)
			}
			if w.calls("StartDiagnostic") != 0 {
				t.Error("the vendor was asked about a Mac that answers")
			}
		})
	}
}

// A guest that starts while the vendor is asked about the server keeps its Mac.
func TestAGuestThatStartsMeanwhileKeepsItsMac(t *testing.T) {
	w := leakAsked(t, leakyNode("0"))
	w.cloud.Fault = func(c cloudtest.Call) (error, error) {
		if c.Name == "GetServer" {
			w.cloud.Fault = nil
			w.must(w.client.Create(w.ctx, podIn(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, corev1.PodRunning)))
		}
		return nil, nil
	}
	for range 5 {
		_ = w.step()
	}
	if w.cloud.Fault != nil {
		t.Fatal("the server was never read")
	}
	if n := w.calls("RebootServer"); n != 0 {
		t.Errorf("%d reboots under a running guest", n)
	}
}

func healed(n *corev1.Node) *corev1.Node {
	n.Status.Conditions[1].Status = corev1.ConditionTrue
	return n
}

func withForeignVM(n *corev1.Node) *corev1.Node {
	n.Status.Conditions[1].Reason = "ForeignGuests"
	return n
}

func booted(n *corev1.Node, boot string) *corev1.Node {
	n.Status.NodeInfo.BootID = boot
	return n
}

func silent(n *corev1.Node) *corev1.Node {
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	return n
}
