package node

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
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
			NewManager(Options{Self: self(), Events: events}).tellChanges(c.was, c.now)
			close(events.Events)
			if got := slices.Collect(valuesOf(events.Events)); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A manager tells once that it starts, and that the Node is Ready once it is shown so.
func TestAManagerTellsWhatBecameOfItsNode(t *testing.T) {
	c := newCluster(t)
	events := record.NewFakeRecorder(9)
	c.events = events
	c.permit("p1")
	c.start()
	c.awaitReady()
	for _, want := range []string{"Normal Starting Starting tart-kubelet v0.1.0.", "Normal NodeReady Node mac-1 status is now: NodeReady"} {
		if got := <-events.Events; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func valuesOf(from <-chan string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for v := range from {
			if !yield(v) {
				return
			}
		}
	}
}
