package host

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// What a Mac's Node says of the guests it has place for; the agent writes these.
const (
	slotsCondition corev1.NodeConditionType = "LicenseSlotsHealthy"
	slotsLeaked                             = "SlotsLeaked"
	foreignGuests                           = "ForeignGuests"
	vmResource     corev1.ResourceName      = "macfleet.dev/macos-vm"
)

const (
	// leakBoots is how long a Mac may take from the vendor's word to another boot.
	leakBoots = 15 * time.Minute
	// leakAgain is how long after a reboot for a leak another one is not made by itself:
	// what leaks again so soon is not mended by reboots.
	leakAgain = 6 * time.Hour
)

// Leak is what a Node tells of macOS guests that its Mac goes on counting although
// they are gone, and whom a reboot would disturb. Only a reboot mends it.
type Leak struct {
	// Leaked: places of the licence are lost.
	Leaked bool
	// Foreign: guests of others run beside the leak, whom no Pod stands for.
	Foreign bool
	// BootID of the boot that lost them.
	BootID string
	// Ready: the agent answers, so that the rest is true now.
	Ready bool
	// Places for guests that are left. With none the agent starts nothing before the
	// reboot.
	Places int64
	// Running Pods: a container of theirs has started and not ended.
	Running []string
}

// KeptByAgent reports that this system's agent has told of the Node: no other agent
// tells of the licence's places.
func KeptByAgent(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == slotsCondition })
}

// LeakOf reads a Node and the Pods on it.
func LeakOf(node *corev1.Node, pods []corev1.Pod) Leak {
	l := Leak{BootID: node.Status.NodeInfo.BootID}
	places := node.Status.Allocatable[vmResource]
	l.Places = places.Value()
	for _, c := range node.Status.Conditions {
		switch c.Type {
		case corev1.NodeReady:
			l.Ready = c.Status == corev1.ConditionTrue
		case slotsCondition:
			l.Foreign = c.Status == corev1.ConditionFalse && c.Reason == foreignGuests
			l.Leaked = l.Foreign || c.Status == corev1.ConditionFalse && c.Reason == slotsLeaked
		}
	}
	for i := range pods {
		if started(&pods[i]) {
			l.Running = append(l.Running, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	return l
}

// started reports whether a guest of the Pod is up: one container of it runs and the
// Pod has not come to its end. One that waits for a place has none, also where its
// phase is Running, as it had a guest before.
func started(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			if c.State.Running != nil {
				return true
			}
		}
	}
	return false
}

// LeakStep is what a leak asks for next.
type LeakStep string

// The steps of a leak.
const (
	// LeakNone: there is none.
	LeakNone LeakStep = "none"
	// LeakWait: a reboot would disturb somebody, or is not ours to ask for now.
	LeakWait LeakStep = "wait"
	// LeakReboot: ask for the reboot.
	LeakReboot LeakStep = "reboot"
	// LeakUnderway: it is asked for, or the Mac reboots.
	LeakUnderway LeakStep = "underway"
	// LeakStays: reboots do not mend it; a person must look.
	LeakStays LeakStep = "stays"
)

// NextLeak decides about a Mac with a leak, and says why. One boot's leak is one
// reboot, whoever looks and however often.
func NextLeak(h *Host, l Leak, now time.Time) (LeakStep, string) {
	last, id := h.Status.LastReboot, LeakRebootID(l.BootID)
	switch {
	case !l.Leaked, l.BootID == "":
		return LeakNone, ""
	case last.ID == id && now.Before(last.At.Add(leakBoots)):
		return LeakUnderway, "the vendor restarts the server"
	case last.ID == id:
		return LeakStays, fmt.Sprintf("the vendor took a reboot at %s, and the Mac still runs the boot from before; reboot it by hand", clockTime(last.At.Time))
	case isLeakReboot(last.ID) && now.Before(last.At.Add(leakAgain)):
		return LeakStays, fmt.Sprintf("places are lost again after the reboot of %s: find out what runs guests there beside the agent; the next reboot is asked for at %s",
			clockTime(last.At.Time), clockTime(last.At.Add(leakAgain)))
	case h.Spec.Reboot != nil && h.Spec.Reboot.ID == id:
		return LeakUnderway, "the reboot is asked for"
	}
	if why := notNow(h, l); why != "" {
		return LeakWait, why
	}
	return LeakReboot, ""
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// NextLeakCheck is when a leak that stays is to be looked at again; zero: when something
// changes.
func NextLeakCheck(h *Host, now time.Time) time.Time {
	if at := h.Status.LastReboot.At.Add(leakAgain); isLeakReboot(h.Status.LastReboot.ID) && at.After(now) {
		return at
	}
	return time.Time{}
}

func notNow(h *Host, l Leak) string {
	switch {
	case h.Spec.Record.HandedOverAt != nil:
		return "the host is another management cluster's"
	case h.Spec.Release != nil:
		return "the host is being released"
	case h.Spec.Maintenance != nil:
		return "the host is in maintenance"
	case h.Spec.Reboot != nil:
		return "another reboot is asked for"
	}
	return whyOccupied(l)
}

// whyOccupied says whom the reboot would disturb. A Node with a place left may start a
// guest at any moment, so that only one without is safe.
func whyOccupied(l Leak) string {
	switch {
	case !l.Ready:
		return "the Node is not Ready, and nobody knows what runs on it"
	case l.Foreign:
		return "VMs of others run on it, which a reboot would end: stop them first"
	case len(l.Running) > 0:
		return fmt.Sprintf("Pods run on it: %s; the Mac is rebooted once they are gone", strings.Join(l.Running, ", "))
	case l.Places > 0:
		return fmt.Sprintf("%d place is left and may be used; the Mac is rebooted once the Node is empty", l.Places)
	}
	return ""
}

const leakPrefix = "leak-"

// LeakRebootID names the one reboot for the leak of a boot.
func LeakRebootID(bootID string) string { return leakPrefix + bootID }

func isLeakReboot(id string) bool { return strings.HasPrefix(id, leakPrefix) }

// ForLeak reports that the host's reboot is asked for because of a leak: whether it
// disturbs anybody is then judged by RebootForLeak.
func ForLeak(h *Host) bool { return h.Spec.Reboot != nil && isLeakReboot(h.Spec.Reboot.ID) }

// RebootForLeak decides, right before the power is cut, about a request for a leak.
// What was asked for in another boot, of a Node that does not answer any more, or under
// guests of others is taken back: silence is a health check's business, and those guests
// may run for good.
func RebootForLeak(h *Host, l Leak) (RebootStep, string) {
	switch {
	case !l.Leaked, h.Spec.Reboot.ID != LeakRebootID(l.BootID):
		return RebootDrop, "no Node tells any more of places that were lost in the boot that was to end"
	case !l.Ready, l.Foreign:
		return RebootDrop, whyOccupied(l)
	}
	if why := whyOccupied(l); why != "" {
		return RebootWait, why
	}
	return RebootAsk, ""
}

// AskForLeakReboot records, in one change of the host, the reboot for a leak, and that
// it disturbs the host. Without force: the host controller looks once more.
func AskForLeakReboot(h *Host, l Leak, now time.Time) {
	h.Spec.Reboot = &infrav1.RebootRequest{ID: LeakRebootID(l.BootID), Reason: "macOS counts guests that are gone, and no place is left"}
	RecordDisruption(h, now)
}
