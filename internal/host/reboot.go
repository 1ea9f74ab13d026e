package host

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// RebootedCondition of a host: what became of the last request for a reboot.
const (
	RebootedCondition = "Rebooted"

	ReasonRebootWaiting = "Waiting"
	ReasonRebootTaken   = "Taken"
	ReasonRebootDropped = "Dropped"
)

// RebootStep is what a request for a reboot needs next.
type RebootStep string

// The steps of a reboot.
const (
	// RebootNone: nothing is asked for.
	RebootNone RebootStep = "none"
	// RebootClear: the vendor took it already; take the request off.
	RebootClear RebootStep = "clear"
	// RebootDrop: it makes no sense any more.
	RebootDrop RebootStep = "drop"
	// RebootWait: not now.
	RebootWait RebootStep = "wait"
	// RebootAsk: ask the vendor.
	RebootAsk RebootStep = "ask"
)

// NextReboot decides about the host's request for a reboot, and says why. The
// vendor's reboot is a power cut: during a reinstall it could leave a broken disk.
func NextReboot(h *Host, gone bool) (RebootStep, string) {
	request := h.Spec.Reboot
	switch {
	case request == nil:
		return RebootNone, ""
	case h.Status.LastReboot.ID == request.ID:
		return RebootClear, ""
	case gone:
		return RebootDrop, "the vendor no longer has this server"
	case h.Spec.Order != nil:
		return RebootDrop, "there is no server yet"
	case h.Spec.Release != nil:
		return RebootDrop, "the host is being released"
	case h.Spec.Record.HandedOverAt != nil:
		return RebootDrop, "the host is another management cluster's"
	case h.Spec.Maintenance != nil && !ForcedByHand(h):
		return RebootWait, "the host is in maintenance"
	case h.Spec.ClaimRef != nil && h.Status.Server.Name != h.Spec.ClaimRef.Name:
		return RebootWait, "the server does not bear its owner's name; it may be somebody else's"
	case ErrorForbidsReboot(h) != "":
		return RebootWait, ErrorForbidsReboot(h)
	case !rebootable(cloud.Status(h.Status.Server.Status)):
		return RebootWait, "the server is " + h.Status.Server.Status
	}
	return RebootAsk, ""
}

// ErrorForbidsReboot says why the host is not rebooted, also not by force, before it is reinstalled; empty: it may be.
func ErrorForbidsReboot(h *Host) string {
	if h.Spec.ClaimRef == nil && cloud.Status(h.Status.Server.Status) == cloud.StatusError {
		return "the server is in error, and no Machine here has it: its reinstall may have failed, which a restart would hide; reinstall it"
	}
	return ""
}

// rebootable: any other status is an act of the vendor's in progress, a lock, or a
// word that nobody here knows.
func rebootable(status cloud.Status) bool {
	return status == cloud.StatusReady || status == cloud.StatusError || status == cloud.StatusRebooting
}

// longestRebootReason is how many bytes spec.reboot.reason may have.
const longestRebootReason = 256

// RebootReason is the reason of a request for a reboot: as much of the text as the API takes.
func RebootReason(text string) string {
	const more = "…"
	if len(text) <= longestRebootReason {
		return text
	}
	return Bounded(text, longestRebootReason-len(more)) + more
}

const remediationPrefix = "remediation-"

// RemediationRebootID names the reboot of a remediation, by what it asks for.
func RemediationRebootID(id string) string { return remediationPrefix + id }

// ForcedByHand reports that a person forces the reboot, who knows of the maintenance and of
// the paused Cluster: spec.reboot.id tells the one reboot of a claim's recovery, and those
// of remediations, which spare no Pods where a health check complains of a Ready Node.
func ForcedByHand(h *Host) bool {
	request := h.Spec.Reboot
	return request != nil && request.Force && !strings.HasPrefix(request.ID, remediationPrefix) && !asksForRecovery(h)
}

// RebootWaits is what the host controller last said of a reboot that is asked for: what it
// waits for, or what the vendor answers.
func RebootWaits(h *Host) string {
	c := meta.FindStatusCondition(h.Status.Conditions, RebootedCondition)
	if h.Spec.Reboot == nil || c == nil || c.Reason != ReasonRebootWaiting {
		return ""
	}
	return c.Message
}

// RebootTaken reports that a vendor's answer to a reboot counts as taken: what no
// longer is needs none, and what is busy already restarts.
func RebootTaken(err error) bool {
	return err == nil || cloud.IsNotFound(err) || cloud.IsTransient(err)
}

// ClearReboot takes a request off that the vendor took, and with it the one
// reboot of a claim's recovery, where it was that.
func ClearReboot(h *Host, id string) {
	if h.Spec.Reboot == nil || h.Spec.Reboot.ID != id {
		return // another request came meanwhile
	}
	h.Spec.Reboot = nil
	if claim := h.Spec.ClaimRef; claim != nil && id == BootstrapRebootID(claim.Token) && h.Spec.Record.Bootstrap.ClaimToken == claim.Token {
		record := &h.Spec.Record.Bootstrap
		record.RebootIssued, record.AttemptsAtReboot = true, record.Attempts
	}
}

// DiagnoseFor is how long the vendor's diagnostic may hold up what it is asked for.
const DiagnoseFor = time.Minute

// Reachable is what a diagnostic of the vendor says, as a condition.
func Reachable(d cloud.Diagnostic) metav1.Condition {
	c := metav1.Condition{Type: infrav1.ReachableCondition, Status: metav1.ConditionFalse, Reason: "Unreachable", Message: d.Message}
	switch {
	case d.Healthy:
		c.Status, c.Reason = metav1.ConditionTrue, "Healthy"
	case len(d.Advice) > 0:
		c.Reason = camel(d.Advice[0])
		c.Message = "the vendor advises " + strings.Join(d.Advice, ", ")
		if d.Message != "" {
			c.Message += ": " + d.Message
		}
	}
	return c
}

// Undiagnosed is the condition of a server that the vendor said nothing about.
func Undiagnosed(why string) metav1.Condition {
	return metav1.Condition{Type: infrav1.ReachableCondition, Status: metav1.ConditionUnknown, Reason: "NoAnswer", Message: why}
}

// camel makes a condition's reason of one of the vendor's words: reboot_server
// becomes RebootServer. What is neither a letter nor a digit parts words.
func camel(word string) string {
	var b strings.Builder
	for _, part := range strings.FieldsFunc(word, func(r rune) bool { return !isWord(r) }) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	if out := b.String(); out != "" && !strings.ContainsAny(out[:1], "0123456789") {
		return out
	}
	return "Unreachable"
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
