package node

import (
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/macfleet/macfleet/internal/agent/health"
)

func statusOf(ready corev1.ConditionStatus, boot string) corev1.NodeStatus {
	s := corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: boot}}
	if ready != "" {
		s.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionUnknown}, {Type: corev1.NodeReady, Status: ready},
		}
	}
	return s
}

func TestEventsOfANode(t *testing.T) {
	const yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	for name, c := range map[string]struct {
		was, now corev1.NodeStatus
		want     []string
	}{
		"it joins":               {statusOf("", ""), statusOf(yes, "a"), []string{"Normal NodeReady Node mac-1 status is now: NodeReady"}},
		"it joins, and is ill":   {statusOf("", ""), statusOf(no, "a"), []string{"Normal NodeNotReady Node mac-1 status is now: NodeNotReady"}},
		"nothing is new":         {statusOf(yes, "a"), statusOf(yes, "a"), nil},
		"it stays ill":           {statusOf(no, "a"), statusOf(no, "a"), nil},
		"it falls ill":           {statusOf(yes, "a"), statusOf(no, "a"), []string{"Normal NodeNotReady Node mac-1 status is now: NodeNotReady"}},
		"it was not heard of":    {statusOf(unknown, "a"), statusOf(yes, "a"), []string{"Normal NodeReady Node mac-1 status is now: NodeReady"}},
		"it comes from a reboot": {statusOf(yes, "a"), statusOf(yes, "b"), []string{"Warning Rebooted Node mac-1 has been rebooted, boot id: b"}},
	} {
		t.Run(name, func(t *testing.T) {
			events := record.NewFakeRecorder(9)
			New(Options{Self: self(), Events: events}).tellChanges(c.was, c.now)
			if got := told(events); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A keeper tells that it starts, and once that the Node is Ready, also where the cache
// does not show yet what it sent.
func TestAKeeperTellsWhatBecameOfItsNode(t *testing.T) {
	c := newCluster(t)
	events := record.NewFakeRecorder(9)
	c.events = events
	c.permit("p1")
	c.start()
	c.awaitReady()
	c.looks()
	c.stop()
	old := c.node().DeepCopy()
	old.Status, old.ResourceVersion = corev1.NodeStatus{}, "1"
	c.keeper.reporter = reporter{self: self()}
	for _, look := range []int{0, 1, 2} {
		if look == 2 {
			old.Status, old.ResourceVersion = statusOf(corev1.ConditionUnknown, "boot"), "2"
		}
		c.find(health.Finding{Type: health.VirtualizationReady, Status: corev1.ConditionTrue, Message: strconv.Itoa(look)})
		if err := c.keeper.report(t.Context(), old); err != nil {
			t.Fatal(err)
		}
	}
	ready := "Normal NodeReady Node mac-1 status is now: NodeReady"
	want := []string{"Normal Starting Starting tart-kubelet v0.1.0.", ready, ready, ready} // of Run, of a new Node, of one that was not heard of
	if got := told(events); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// told are the events so far; there are no more.
func told(from *record.FakeRecorder) []string {
	close(from.Events)
	var all []string
	for e := range from.Events {
		all = append(all, e)
	}
	return all
}
