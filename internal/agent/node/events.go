package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of the events about a Node, as a kubelet's.
const (
	reasonStarting     = "Starting"
	reasonNodeReady    = "NodeReady"
	reasonNodeNotReady = "NodeNotReady"
	reasonRebooted     = "Rebooted"
)

// event tells something about the Node.
func (k *Keeper) event(kind, reason, format string, args ...any) {
	if k.o.Events == nil {
		return
	}
	// kubectl describe looks for events of a Node by its name in the place of its UID.
	ref := &corev1.ObjectReference{Kind: "Node", Name: k.name(), UID: types.UID(k.name())}
	k.o.Events.Eventf(ref, kind, reason, format, args...)
}

// tellChanges tells what a status that the API server took has changed about the Node.
func (k *Keeper) tellChanges(was, now corev1.NodeStatus) {
	if before := was.NodeInfo.BootID; before != "" && before != now.NodeInfo.BootID {
		k.event(corev1.EventTypeWarning, reasonRebooted, "Node %s has been rebooted, boot id: %s", k.name(), now.NodeInfo.BootID)
	}
	is := readyStatus(now)
	if is == readyStatus(was) {
		return
	}
	reason := reasonNodeNotReady
	if is == corev1.ConditionTrue {
		reason = reasonNodeReady
	}
	k.event(corev1.EventTypeNormal, reason, "Node %s status is now: %s", k.name(), reason)
}

// readyStatus is that of the condition Ready; empty: there is none.
func readyStatus(s corev1.NodeStatus) corev1.ConditionStatus {
	at := slices.IndexFunc(s.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if at < 0 {
		return ""
	}
	return s.Conditions[at].Status
}
