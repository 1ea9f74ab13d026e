package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
)

// reinstall is what the vendor takes for one at most, as docs/operate/hosts.md says.
const reinstall = 20 * time.Minute

// HostKinds are what a Host's story is told from.
func HostKinds() []snapshot.Kind {
	return []snapshot.Kind{
		snapshot.Hosts, snapshot.Machines, snapshot.Zones, snapshot.Remediations, snapshot.Clusters, snapshot.CoreMachines,
		snapshot.HealthChecks, snapshot.Profiles,
	}
}

// HostNames are the names of what a Host's story is told from, of the kinds of which each Mac
// has one.
func HostNames(h *infrav1.ScalewayAppleSiliconHost) map[snapshot.Kind]string {
	if h.Spec.ClaimRef == nil {
		return namesOfMac(h.Name, "")
	}
	return namesOfMac(h.Name, h.Spec.ClaimRef.Name)
}

// namesOfMac are by kind: all that belongs to a Machine bears its name.
func namesOfMac(host, machine string) map[snapshot.Kind]string {
	return map[snapshot.Kind]string{
		snapshot.Hosts: host, snapshot.Machines: machine, snapshot.CoreMachines: machine, snapshot.Nodes: machine, snapshot.Remediations: machine,
	}
}

// Host tells a Host's story.
func Host(s *snapshot.Snapshot, book reasons.Book, h *infrav1.ScalewayAppleSiliconHost) Story {
	t := newTeller(s, book, "host", h)
	t.names["HOST"] = h.Name
	m := ownerOf(s, h)
	if m != nil {
		t.names["NS"], t.names["MACHINE"] = m.Namespace, m.Name
	}
	t.hostIs(h)
	t.hostPhase("", h)
	t.hostConditions("", h)
	if m != nil && show.PhaseOf(s, m) != "Running" {
		t.machine("machine "+m.Name, m)
	}
	t.zones("")
	return *t.story
}

func ownerOf(s *snapshot.Snapshot, h *infrav1.ScalewayAppleSiliconHost) *infrav1.ScalewayAppleSiliconMachine {
	for i := range s.Machines {
		if host.HoldsClaim(h, &s.Machines[i]) {
			return &s.Machines[i]
		}
	}
	return nil
}

func (t *teller) hostIs(h *infrav1.ScalewayAppleSiliconHost) {
	server := h.Status.Server
	facts := []string{"a Mac in " + h.Spec.Zone}
	for _, fact := range []struct{ label, value string }{
		{"type ", server.Type}, {"macOS ", server.OSFamily}, {"named ", server.Name}, {"at ", server.IP}, {"server ", h.Spec.ServerID},
	} {
		if fact.value != "" {
			facts = append(facts, fact.label+fact.value)
		}
	}
	t.is("%s", strings.Join(facts, ", "))
	switch claim := h.Spec.ClaimRef; {
	case claim == nil:
		t.is("no Machine has it")
	case claim.Namespace == host.NoNamespace && h.Spec.Release != nil && h.Spec.Release.Policy == infrav1.Terminate:
		t.is("given back to the vendor by a person; no Machine has it")
	case claim.Namespace == host.NoNamespace && h.Spec.Release != nil && h.Spec.Release.Origin == infrav1.OriginUnseen:
		t.is("wiped once before it is used, since nothing tells of its past (pool.trustUnseen is false); no Machine has it")
	case claim.Namespace == host.NoNamespace:
		t.is("claimed by its own adoption, which no Machine is behind")
	case t.isGone(claim):
		t.is("claimed by Machine %s/%s, which is gone", claim.Namespace, claim.Name)
	default:
		t.is("claimed by Machine %s/%s", claim.Namespace, claim.Name)
	}
	if h.DeletionTimestamp != nil {
		t.is("somebody deleted this object at %s: it goes when the release has ended, and comes back without what was noted of it, as long as the vendor lists the server", h.DeletionTimestamp.UTC().Format(time.RFC3339))
	}
	if at := server.DeletableAt; at != nil && at.After(t.s.At) {
		t.is("the vendor bills it until %s at least", at.UTC().Format(time.RFC3339))
	} else if at != nil {
		t.is("what the vendor bills of it at least was over at %s; it bills on until the Mac is given back", at.UTC().Format(time.RFC3339))
	}
	if n := h.Spec.Failures.Count; n > 0 {
		last := ""
		if recent := h.Spec.Failures.Recent; len(recent) > 0 {
			last = fmt.Sprintf(", the last at %s: %s", recent[len(recent)-1].Time.UTC().Format(time.RFC3339), recent[len(recent)-1].Reason)
		}
		t.is("claims of it came to nothing %s%s", show.Count(int(n), "time"), last)
	}
}

// isGone: that no Machine of a claim's name is in the snapshot says so only where it would be.
func (t *teller) isGone(claim *infrav1.ClaimReference) bool {
	if t.s.Lacks(snapshot.Machines) != "" || t.s.Namespace != "" && t.s.Namespace != claim.Namespace {
		return false
	}
	return !slices.ContainsFunc(t.s.Machines, func(m infrav1.ScalewayAppleSiliconMachine) bool {
		return m.Namespace == claim.Namespace && m.Name == claim.Name
	})
}

// hostPhase takes up where in its life the host is.
func (t *teller) hostPhase(about string, h *infrav1.ScalewayAppleSiliconHost) {
	p := Point{About: about, Reason: string(h.Status.Phase), Healthy: h.Status.Phase == infrav1.HostInUse || h.Status.Phase == infrav1.HostAvailable, Read: page("phases.md")}
	if rule, found := host.RuleOf(h, t.s.At); found {
		p.Means = rule.Meaning
		if !p.Healthy {
			p.Next = "it goes on when " + rule.Next
		}
	}
	wipe := h.Spec.Record.Wipe
	switch h.Status.Phase {
	case infrav1.HostWiping, infrav1.HostReleasing:
		if h.Spec.Release != nil {
			p.Since = &h.Spec.Release.RequestedAt.Time
		}
		if wipe.RequestedAt != nil {
			p.Since = &wipe.RequestedAt.Time
		}
		switch rejected := find(h.Status.Conditions, infrav1.WipedCondition); {
		case host.ReleaseHeld(h):
			p.Next = "nothing, until somebody acts: its server is somebody else's by its name"
		case rejected != nil && rejected.Reason == infrav1.ReasonWipeRejected:
			p.Next = rejectedWipe(h)
		case wipe.RequestedAt != nil:
			when := wipe.RequestedAt.Add(reinstall)
			p.Next, p.NextAt = p.Next+"; the vendor takes 15 to 20 minutes", &when
		}
	case infrav1.HostHandedOver:
		if at := h.Spec.Record.HandedOverAt; at != nil {
			p.Since = &at.Time
		}
	case infrav1.HostOrdering:
		p.Since = &h.CreationTimestamp.Time
	case infrav1.HostRetiring:
		p.NextAt = timeOf(h.Status.Server.DeletableAt)
	case infrav1.HostQuarantined:
		if h.Spec.Quarantine != nil {
			p.NextAt = timeOf(h.Spec.Quarantine.Until)
		}
	}
	if show.Undelivered(h) {
		p.Says, p.Since = show.NotDelivered, &h.CreationTimestamp.Time
		p.Next = "it goes on when the vendor delivers it"
	}
	entry, found := reasons.Entry{}, false
	if !p.Healthy && h.Status.Phase != infrav1.HostClaimed {
		reason := string(h.Status.Phase)
		if host.AwaitsFirstWipe(h) {
			reason = host.ReasonNeverSeenWiped
		}
		entry, found = t.book.Find(reason, infrav1.AvailableCondition)
	}
	if found {
		p.Read = ""
	}
	if c := find(h.Status.Conditions, infrav1.AvailableCondition); c != nil && !p.Healthy && p.Says == "" {
		p.Says = c.Message
	}
	entry.Means = ""
	t.add(p, entry)
}

func timeOf(at *metav1.Time) *time.Time {
	if at == nil {
		return nil
	}
	return &at.Time
}

// hostConditions takes up those that the phase does not tell.
func (t *teller) hostConditions(about string, h *infrav1.ScalewayAppleSiliconHost) {
	for _, c := range h.Status.Conditions {
		if !show.Unhealthy(c) || toldByPhase(h, c) {
			continue
		}
		var when next
		switch {
		case c.Reason == infrav1.ReasonWipeRejected:
			when = next{text: rejectedWipe(h)}
		case c.Type == host.RebootedCondition && c.Reason == host.ReasonRebootWaiting:
			when = rebootWaits(h, c)
		case c.Type == infrav1.KeptOutCondition && show.KeptOutEnds(h):
			when = next{text: "the quarantine ends", at: &h.Spec.Quarantine.Until.Time}
		case c.Type == infrav1.ReachableCondition && h.Spec.Reboot != nil:
			when = next{text: "the reboot that is asked for"}
		case c.Type == infrav1.ReachableCondition, c.Type == host.RebootedCondition && c.Reason == host.ReasonRebootDropped:
			when = next{text: "nothing: it stays as it is until another reboot is asked for"}
		}
		t.condition(about, c, when.since(show.HostBegan(h, c)))
	}
}

// rejectedWipe is what comes of a wipe that the vendor refuses.
func rejectedWipe(h *infrav1.ScalewayAppleSiliconHost) string {
	const again = "the vendor is asked again with growing pauses"
	switch {
	case h.Spec.Release != nil && h.Spec.Release.Policy == infrav1.Terminate:
		return "the server is given back to the vendor as it is"
	case host.WipeFailedTwice(h):
		return again + ", also while the host is quarantined"
	}
	return again + "; after twice manager.reinstallTimeout the host is quarantined, and asked for all the same"
}

// rebootWaits is what comes of a reboot that waits. A drain or force hastens only what waits for
// a Machine's Pods.
func rebootWaits(h *infrav1.ScalewayAppleSiliconHost, c metav1.Condition) next {
	cancel := []string{fmt.Sprintf("macfleet host reboot %s --cancel", h.Name)}
	switch {
	case strings.HasPrefix(c.Message, host.Refused("")):
		return next{text: "the vendor is asked again", you: "mend what the vendor says: of the API key its cluster tells, too. Or take the reboot back", commands: cancel}
	case h.Spec.ClaimRef == nil:
		return next{text: whenOver, you: "see to what its message names, or take the reboot back", commands: cancel}
	}
	return next{text: whenOver}
}

const whenOver = "it is made as soon as what its message names is over"

// rebootedSince: what the vendor's diagnostic found and advised was before the last reboot, and
// is asked for anew before the next.
func rebootedSince(h *infrav1.ScalewayAppleSiliconHost, c metav1.Condition) bool {
	return c.Type == infrav1.ReachableCondition && h.Status.LastReboot.At.After(c.LastTransitionTime.Time)
}

// toldByPhase: Available repeats the phase, and a Mac that somebody has is not clean.
func toldByPhase(h *infrav1.ScalewayAppleSiliconHost, c metav1.Condition) bool {
	if c.Reason == infrav1.ReasonNotDelivered || rebootedSince(h, c) {
		return true
	}
	idle := h.Spec.ClaimRef == nil || h.Spec.Release != nil
	switch c.Type {
	case infrav1.AvailableCondition:
		return true
	case infrav1.KeptOutCondition:
		return c.Reason == string(h.Status.Phase)
	case infrav1.WipedCondition:
		return !idle || c.Reason == infrav1.ReasonNotWiped && slices.Contains([]infrav1.HostPhase{infrav1.HostDirty, infrav1.HostForeign}, h.Status.Phase)
	case infrav1.NameInSyncCondition, host.CredentialsStagedCondition:
		return idle && slices.Contains([]infrav1.HostPhase{infrav1.HostAvailable, infrav1.HostForeign}, h.Status.Phase)
	}
	return false
}
