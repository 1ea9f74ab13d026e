package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
)

// tellSlots does what the agent does: its Node says how many places are left in this
// boot, and whether any are lost.
func (w *world) tellSlots(name, boot, places string, leaked bool) {
	w.t.Helper()
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: name}, node)
	node.Status.NodeInfo.BootID = boot
	node.Status.Allocatable = corev1.ResourceList{"macfleet.dev/macos-vm": resource.MustParse(places)}
	c := corev1.NodeCondition{Type: "LicenseSlotsHealthy", Status: corev1.ConditionTrue, Reason: "AllSlotsUsable"}
	if leaked {
		c.Status, c.Reason = corev1.ConditionFalse, "SlotsLeaked"
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, c}
	w.updateStatus(node)
}

// leaky is a Mac that runs and has lost both of its places.
func leaky(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	w.heard()
	w.tellSlots("mac-1", "boot-1", "0", true)
	return w
}

func guestPod(state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "build"},
		Spec:       corev1.PodSpec{NodeName: "mac-1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{State: state}}},
	}
}

// rebootTaken does what the host controller does once the vendor took the reboot.
func (w *world) rebootTaken() {
	w.t.Helper()
	h := w.host(hostName)
	id := h.Spec.Reboot.ID
	host.ClearReboot(h, id)
	w.update(h)
	h.Status.LastReboot = infrav1.RebootStatus{ID: id, At: metav1.NewMicroTime(w.clock.Now())}
	w.updateStatus(h)
}

func TestALeakOfAnEmptyMacIsRebooted(t *testing.T) {
	w := leaky(t)
	w.settle("mac-1")
	h := w.host(hostName)
	if h.Spec.Reboot == nil || h.Spec.Reboot.ID != host.LeakRebootID("boot-1") || h.Spec.Reboot.Force || h.Spec.Record.DisturbedAt == nil {
		t.Fatalf("reboot %+v, disturbed %v", h.Spec.Reboot, h.Spec.Record.DisturbedAt)
	}
	if got := w.reason("mac-1", infrav1.SlotsHealthyCondition); got != infrav1.ReasonRebootingForSlots {
		t.Errorf("slots: %s", got)
	}
	w.rebootTaken()
	for range 3 { // one leak is one reboot, also for another manager
		w.restart()
		w.settle("mac-1")
		if w.host(hostName).Spec.Reboot != nil {
			t.Fatal("asked for again in the same boot")
		}
	}
	w.tellSlots("mac-1", "boot-2", "2", false)
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.SlotsHealthyCondition); got != infrav1.ReasonSlotsUsable {
		t.Errorf("slots after the reboot: %s", got)
	}
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, infrav1.ReasonRebootingForSlots) || !strings.Contains(heard, infrav1.ReasonSlotsUsable) {
		t.Errorf("events: %s", heard)
	}
	if got := w.machine("mac-1").Status.Phase; got != machine.PhaseRunning {
		t.Errorf("phase %s", got)
	}
}

func TestARebootThatDoesNotHelpIsAPersonsBusiness(t *testing.T) {
	w := leaky(t)
	w.settle("mac-1")
	w.rebootTaken()
	w.clock.SetTime(w.clock.Now().Add(20 * time.Minute))
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.SlotsHealthyCondition); got != infrav1.ReasonSlotsStillLeaked || w.host(hostName).Spec.Reboot != nil {
		t.Errorf("a Mac that never rebooted: %s, reboot %+v", got, w.host(hostName).Spec.Reboot)
	}
	w.tellSlots("mac-1", "boot-2", "0", true)
	result := w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.SlotsHealthyCondition); got != infrav1.ReasonSlotsStillLeaked || w.host(hostName).Spec.Reboot != nil {
		t.Errorf("a leak in the next boot: %s, reboot %+v", got, w.host(hostName).Spec.Reboot)
	}
	w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
	w.settle("mac-1")
	if r := w.host(hostName).Spec.Reboot; r == nil || r.ID != host.LeakRebootID("boot-2") {
		t.Errorf("hours later: reboot %+v", r)
	}
}

func TestLeakedSlotsWaitForRunningPods(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "LicenseLimitReached"}}
	for name, c := range map[string]struct {
		edit   func(w *world)
		end    func(w *world)
		silent bool
	}{
		"for a guest": {
			edit: func(w *world) { w.create(guestPod(running)) },
			end:  func(w *world) { w.delete(guestPod(running)) },
		},
		"for a place that is left": {
			edit: func(w *world) { w.tellSlots("mac-1", "boot-1", "1", true) },
			end:  func(w *world) { w.tellSlots("mac-1", "boot-1", "0", true) },
		},
		"for the end of maintenance": {
			edit: func(w *world) { w.maintain(&infrav1.Maintenance{Reason: "SSD"}) },
			end:  func(w *world) { w.maintain(nil) },
		},
		"for the storm guard": {
			edit: func(w *world) { w.report.Failing = true },
			end:  func(w *world) { w.report.Failing = false },
		},
		"for a paused cluster": {
			edit:   func(w *world) { w.pauseCluster(true) },
			end:    func(w *world) { w.pauseCluster(false) },
			silent: true,
		},
		"for VMs of others": {
			edit: func(w *world) { w.startForeignVM() },
			end:  func(w *world) { w.tellSlots("mac-1", "boot-1", "0", true) },
		},
		"not for a Pod that waits itself": {edit: func(w *world) { w.create(guestPod(waiting)) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := leaky(t)
			c.edit(w)
			w.settle("mac-1")
			if c.end != nil {
				if r := w.host(hostName).Spec.Reboot; r != nil {
					t.Fatalf("asked for: %+v", r)
				}
				if got := w.reason("mac-1", infrav1.SlotsHealthyCondition); !c.silent && got != infrav1.ReasonSlotsLeaked {
					t.Errorf("slots: %s", got)
				}
				c.end(w)
				w.settle("mac-1")
			}
			if r := w.host(hostName).Spec.Reboot; r == nil {
				t.Errorf("nothing is asked for: %+v", w.condition(infrav1.SlotsHealthyCondition))
			}
		})
	}
}

func (w *world) maintain(m *infrav1.Maintenance) {
	w.t.Helper()
	h := w.host(hostName)
	h.Spec.Maintenance = m
	w.update(h)
}

func (w *world) pauseCluster(is bool) {
	w.t.Helper()
	c := &clusterv1.Cluster{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "macs"}, c)
	c.Spec.Paused = ptr.To(is)
	w.update(c)
}

// What the cache shows may be old: a guest that started, or a claim that changed,
// before the request is written keeps the Mac from it.
func TestLeakedSlotsAreReadUncached(t *testing.T) {
	w := leaky(t)
	asks := func(verb string, object client.Object) bool {
		h, is := object.(*host.Host)
		return is && verb == "update" && h.Spec.Reboot != nil
	}
	w.once(asks, func() { w.maintain(&infrav1.Maintenance{Reason: "SSD"}) })
	w.settle("mac-1")
	if r := w.host(hostName).Spec.Reboot; r != nil {
		t.Errorf("asked for against what a person said meanwhile: %+v", r)
	}
}

// startForeignVM does what the agent does where a VM of others runs on a Mac with a leak:
// its Node names those first, for a reboot would end them.
func (w *world) startForeignVM() {
	w.t.Helper()
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: "mac-1"}, node)
	node.Status.Conditions[1].Reason = "ForeignGuests"
	w.updateStatus(node)
}

// A VM of others gives no slot back.
func TestAForeignVMDoesNotEndALeak(t *testing.T) {
	w := leaky(t)
	w.settle("mac-1")
	w.startForeignVM()
	h := w.host(hostName)
	host.ClearReboot(h, h.Spec.Reboot.ID) // as the host controller does
	w.update(h)
	w.settle("mac-1")
	c := w.condition(infrav1.SlotsHealthyCondition)
	if c.Reason != infrav1.ReasonSlotsLeaked || !strings.Contains(c.Message, "VMs of others") || w.host(hostName).Spec.Reboot != nil {
		t.Errorf("slots %+v, reboot %+v", c, w.host(hostName).Spec.Reboot)
	}
}

func TestNodeNewsOfSlots(t *testing.T) {
	node := func(edit func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"macfleet.dev/macos-vm": resource.MustParse("2")},
			Conditions:  []corev1.NodeCondition{{Type: "LicenseSlotsHealthy", Status: corev1.ConditionTrue}},
		}}
		edit(n)
		return n
	}
	before := node(func(*corev1.Node) {})
	for name, c := range map[string]struct {
		edit func(*corev1.Node)
		want bool
	}{
		"a heartbeat": {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }, false},
		"a leak": {func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionFalse, "SlotsLeaked"
		}, true},
		"a boot":  {func(n *corev1.Node) { n.Status.NodeInfo.BootID = "b" }, true},
		"a place": {func(n *corev1.Node) { n.Status.Allocatable["macfleet.dev/macos-vm"] = resource.MustParse("1") }, true},
	} {
		if got := slotNews(before, node(c.edit)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	leaks := func(reason string) *corev1.Node {
		return node(func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionFalse, reason
		})
	}
	if !slotNews(leaks("ForeignGuests"), leaks("SlotsLeaked")) {
		t.Error("the end of VMs of others is no news")
	}
}

// TestLostSlotsAreCounted: an alert finds the Macs that wait for their reboot.
func TestLostSlotsAreCounted(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	if n := testutil.CollectAndCount(newMachineCollector(w.client, w.clock), "macfleet_machines_lost_slots"); n != 0 {
		t.Errorf("%d series although no slot is lost", n)
	}
	m := w.machine("mac-1")
	set(m, infrav1.SlotsHealthyCondition, machine.False(infrav1.ReasonSlotsLeaked, "why"))
	w.updateStatus(m)
	want := `# HELP macfleet_machines_lost_slots Machines whose Mac cannot use all its slots for guests, by fleet and reason.
# TYPE macfleet_machines_lost_slots gauge
macfleet_machines_lost_slots{fleet="` + machine.Snapshot{Machine: m}.Fleet() + `",reason="SlotsLeaked"} 1
`
	if err := testutil.CollectAndCompare(newMachineCollector(w.client, w.clock), strings.NewReader(want), "macfleet_machines_lost_slots"); err != nil {
		t.Error(err)
	}
}
