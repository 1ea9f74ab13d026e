package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/slot"
)

// licenseSlotsHealthy says whether all places that Apple's licence allows can be used.
const licenseSlotsHealthy corev1.NodeConditionType = "LicenseSlotsHealthy"

// Reasons of licenseSlotsHealthy and Ready.
const (
	reasonSlotsFree = "AllSlotsUsable"
	// reasonSlotsLeaked: the system counts guests that are gone; a reboot helps, and
	// disturbs nobody but the Pods of this Node.
	reasonSlotsLeaked = "SlotsLeaked"
	// reasonForeignGuests: macOS guests that are not ours take places; a reboot would
	// end them.
	reasonForeignGuests = "ForeignGuests"
	reasonReady         = "AgentReady"
	reasonNotReady      = "GuestsCannotStart"
)

// conditions are those of the host's findings, of its slots, and Ready, which follows
// from them. Times come from old where nothing changed, and no other condition is in
// the list: those of others stay.
func conditions(found []health.Finding, slots slot.State, old []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	list := []corev1.NodeCondition{ready(found)}
	for _, f := range found {
		list = append(list, corev1.NodeCondition{Type: f.Type, Status: f.Status, Reason: f.Reason, Message: f.Message})
	}
	list = append(list, licence(slots))
	for i := range list {
		list[i].LastHeartbeatTime = metav1.NewTime(now)
		list[i].LastTransitionTime = transition(list[i], old, now)
	}
	return list
}

// ready sums up: the Node is not Ready only where no guest can start. Fewer slots
// show in what is allocatable.
func ready(found []health.Finding) corev1.NodeCondition {
	var words []string
	for _, f := range found {
		if f.Blocks {
			words = append(words, fmt.Sprintf("%s: %s: %s", f.Type, f.Reason, f.Message))
		}
	}
	if len(words) > 0 {
		return corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: reasonNotReady, Message: strings.Join(words, "; "),
		}
	}
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: reasonReady, Message: "the agent is ready to run VMs",
	}
}

func licence(s slot.State) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: licenseSlotsHealthy, Status: corev1.ConditionTrue, Reason: reasonSlotsFree}
	foreign := ""
	if len(s.Foreign) > 0 {
		foreign = "VMs of others run here and take places: " + strings.Join(s.Foreign, ", ")
		c.Reason, c.Message = reasonForeignGuests, foreign
	}
	if s.Leaked == 0 {
		return c
	}
	c.Status, c.Reason = corev1.ConditionFalse, reasonSlotsLeaked
	c.Message = fmt.Sprintf("macOS counts %d guests that do not run, of %d that the licence allows; only a reboot helps", s.Leaked, slot.Licence)
	if foreign != "" {
		c.Reason = reasonForeignGuests
		c.Message += ", and " + foreign + ": stop them first"
	}
	return c
}

func transition(c corev1.NodeCondition, old []corev1.NodeCondition, now time.Time) metav1.Time {
	i := slices.IndexFunc(old, func(o corev1.NodeCondition) bool { return o.Type == c.Type && o.Status == c.Status })
	if i >= 0 {
		return old[i].LastTransitionTime
	}
	return metav1.NewTime(now)
}

// sameButTimes reports whether two lists say the same at different times.
func sameButTimes(a, b []corev1.NodeCondition) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.NodeCondition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Message == y.Message
	})
}

// describeHealth is one line for the log.
func describeHealth(list []corev1.NodeCondition) string {
	words := make([]string, 0, len(list))
	for _, c := range list {
		words = append(words, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	return fmt.Sprint(words)
}
