package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// Reasons beside those of the API package.
const (
	reasonNotListed  = "NotListedYet"
	reasonListFailed = "ListFailed"
	reasonNotHeld    = "NotHeld"
)

// judge says what the last lists tell of the credentials and of the inventory:
// the first zone that is not as it should be decides.
func judge(zones []string, reports map[string]host.ZoneReport) (credentials, synced metav1.Condition) {
	credentials = metav1.Condition{Type: infrav1.CredentialsValidCondition, Status: metav1.ConditionTrue, Reason: infrav1.CredentialsValidCondition}
	synced = metav1.Condition{Type: infrav1.InventorySyncedCondition, Status: metav1.ConditionTrue, Reason: infrav1.InventorySyncedCondition}
	for _, zone := range zones {
		report, listed := reports[zone]
		if credentials.Status == metav1.ConditionTrue {
			credentials = judgeCredentials(credentials, zone, report, listed)
		}
		if synced.Status == metav1.ConditionTrue {
			synced = judgeList(synced, zone, report, listed)
		}
	}
	if synced.Reason == infrav1.ReasonUnknownZone {
		synced.Message += known(zones, reports)
	}
	return credentials, synced
}

// known names the zones that the vendor did list: it does not tell which it has.
func known(zones []string, reports map[string]host.ZoneReport) string {
	var good []string
	for _, zone := range zones {
		if report, listed := reports[zone]; listed && report.Err == nil {
			good = append(good, zone)
		}
	}
	if len(good) == 0 {
		return "; no other zone of this Cluster was listed yet"
	}
	slices.Sort(good)
	return "; known are: " + strings.Join(good, ", ")
}

// judgeCredentials: an error that is not about the credentials leaves them as
// they were last proved.
func judgeCredentials(c metav1.Condition, zone string, report host.ZoneReport, listed bool) metav1.Condition {
	switch {
	case !listed:
		return not(c, metav1.ConditionUnknown, reasonNotListed, "zone %s was not listed yet", zone)
	case cloud.IsUnauthorized(report.Err), cloud.IsForbidden(report.Err):
		return not(c, metav1.ConditionFalse, infrav1.ReasonCredentialsRejected, "zone %s: %s%s", zone, report.Unreadable(), which(report.Err))
	case report.At.IsZero():
		return not(c, metav1.ConditionUnknown, reasonNotListed, "zone %s was not listed yet", zone)
	case len(report.Refused) > 0:
		return not(c, metav1.ConditionFalse, infrav1.ReasonWritesForbidden, "%s", forbidden(report.Refused))
	}
	return c
}

// which tells the refused key from those before it: who replaces it sees that the new one was
// read, and refused as well.
func which(refused error) string {
	if key := cloud.KeyOf(refused); key != "" {
		return "; " + key
	}
	return ""
}

// forbidden says which right is missing: the vendor grants reading and writing apart.
// The rights are of the project, and no zone's.
func forbidden(refused []cloud.Refusal) string {
	var texts []string
	for _, r := range refused {
		texts = append(texts, fmt.Sprintf("%s is refused since %s, the API key lacks %s (%s)", r.Call, r.Since.UTC().Format(time.RFC3339), missingRight(r.Call), r.Said))
	}
	return "the vendor lets the credentials read, and not write: " + strings.Join(texts, "; ")
}

// missingRight is the vendor's permission set that holds the right to a call.
func missingRight(call string) string {
	if strings.HasSuffix(call, "SSHKey") {
		return "SSHKeysFullAccess"
	}
	return "AppleSiliconFullAccess"
}

func judgeList(c metav1.Condition, zone string, report host.ZoneReport, listed bool) metav1.Condition {
	switch {
	case !listed:
		return not(c, metav1.ConditionUnknown, reasonNotListed, "zone %s was not listed yet", zone)
	case report.Err != nil:
		return not(c, metav1.ConditionFalse, listReason(report.Err), "zone %s: %s", zone, report.Unreadable())
	case report.Suspicious:
		return not(c, metav1.ConditionFalse, infrav1.ReasonInventorySuspicious, "zone %s: %s, too many to believe it", zone, report.Vanished())
	}
	return c
}

// judgeHold says whether recovery and the sweep may destroy anything: the first
// zone that is held decides. A zone that was not listed yet is no news.
func judgeHold(zones []string, reports map[string]host.ZoneReport, hosts []infrav1.ScalewayAppleSiliconHost, now time.Time) metav1.Condition {
	c := metav1.Condition{Type: infrav1.DestructionHeldCondition, Status: metav1.ConditionFalse, Reason: reasonNotHeld}
	for _, zone := range zones {
		report, listed := reports[zone]
		if !listed {
			return not(c, metav1.ConditionUnknown, reasonNotListed, "zone %s was not listed yet", zone)
		}
		if hold := host.DestructionBlocked(zone, hosts, report, listed, now); hold.Reason != "" {
			return not(c, metav1.ConditionTrue, hold.Reason, "%s", hold.Message)
		}
	}
	return c
}

func listReason(err error) string {
	switch {
	case cloud.IsUnauthorized(err), cloud.IsForbidden(err):
		return infrav1.ReasonCredentialsRejected
	case cloud.IsThrottled(err):
		return infrav1.ReasonVendorThrottled
	case cloud.IsUnknownZone(err):
		return infrav1.ReasonUnknownZone
	case cloud.IsUnavailable(err):
		return infrav1.ReasonVendorUnreachable
	}
	return reasonListFailed
}

func not(c metav1.Condition, status metav1.ConditionStatus, reason, message string, args ...any) metav1.Condition {
	c.Status, c.Reason, c.Message = status, reason, fmt.Sprintf(message, args...)
	return c
}
