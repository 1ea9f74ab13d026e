// Package timeline merges what is known of one Mac's past: events, when conditions changed,
// the times in the records of its Host and its Machine, and what the Mac itself has on record.
// Pure functions.
package timeline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
)

// Entry is something that happened. Its JSON is documented in docs/operate/cli.md.
type Entry struct {
	At time.Time `json:"at"`
	// Source is event, condition, record or report.
	Source string `json:"source"`
	// Object is the one that it happened to: host, machine, node and the like, or the mac.
	Object string `json:"object"`
	What   string `json:"what"`
	Says   string `json:"says,omitempty"`
	// Count is how often, where the same event came again; At is the last time then.
	Count int32 `json:"count,omitempty"`
}

// Of is one Mac: the host, the Machine that has it, or both.
type Of struct {
	Host    *infrav1.ScalewayAppleSiliconHost
	Machine *infrav1.ScalewayAppleSiliconMachine
}

// Names are those of the objects whose events tell of it. A host whose Machine is gone still
// names that in its claim until it is wiped; after that it remembers no Machine.
func (of Of) Names() []string {
	var names []string
	if of.Host != nil {
		names = append(names, of.Host.Name)
	}
	switch {
	case of.Machine != nil:
		names = append(names, of.Machine.Name)
		if of.Machine.Spec.Acquisition == infrav1.Order {
			names = append(names, host.OrderName(of.Machine.Name)) // what the vendor said of its order
		}
	case of.Host != nil && claimant(of.Host) != nil:
		names = append(names, of.Host.Spec.ClaimRef.Name)
	}
	return names
}

// Merge has all entries, the oldest first, with those that came from elsewhere.
func Merge(s *snapshot.Snapshot, of Of, more ...Entry) []Entry {
	entries := append([]Entry{}, more...)
	for i := range s.Events {
		entries = append(entries, event(&s.Events[i]))
	}
	if of.Host != nil {
		entries = append(entries, hostRecord(of.Host)...)
		entries = append(entries, transitions("host", of.Host.Status.Conditions)...)
	}
	if m := of.Machine; m != nil {
		entries = append(entries, machineRecord(m)...)
		entries = append(entries, transitions("machine", m.Status.Conditions)...)
		entries = append(entries, remediations(s, m)...)
		entries = append(entries, node(s, m.Name)...)
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.At.IsZero() })
	slices.SortStableFunc(entries, func(a, b Entry) int {
		if order := cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Object, b.Object)); order != 0 || a.Source == "report" {
			return order // steps of one moment stay in their order
		}
		return cmp.Compare(a.What, b.What)
	})
	return entries
}

func event(e *corev1.Event) Entry {
	at, count := LastSeen(e)
	return Entry{At: at, Source: "event", Object: KindOf(e.InvolvedObject.Kind), What: e.Reason, Says: screen.OneLine(e.Message), Count: count}
}

// LastSeen is when an event came the last time, and how often it came, where that is more
// than once.
func LastSeen(e *corev1.Event) (at time.Time, count int32) {
	at, count = e.LastTimestamp.Time, e.Count
	if at.IsZero() {
		at = e.EventTime.Time
	}
	if e.Series != nil {
		at, count = e.Series.LastObservedTime.Time, e.Series.Count
	}
	if count <= 1 {
		count = 0
	}
	return at, count
}

// KindOf is how a kind is called here.
func KindOf(kind string) string {
	switch kind {
	case "ScalewayAppleSiliconHost":
		return "host"
	case "ScalewayAppleSiliconMachine":
		return "machine"
	case "ScalewayAppleSiliconRemediation":
		return "remediation"
	case "MacNodeProfile":
		return "profile"
	case "Machine":
		return "core machine"
	}
	return strings.ToLower(kind)
}

func transitions(object string, conditions []metav1.Condition) []Entry {
	var entries []Entry
	for _, c := range conditions {
		entries = append(entries, Entry{
			At: c.LastTransitionTime.Time, Source: "condition", Object: object,
			What: became(c.Type, string(c.Status), c.Reason), Says: screen.OneLine(c.Message),
		})
	}
	return entries
}

// became tells of a condition's change. Its time is that of the status: reason and message
// are those of now, and may have changed since.
func became(kind, status, reason string) string {
	return fmt.Sprintf("%s became %s, and says now %s", kind, status, reason)
}

func remediations(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) []Entry {
	var entries []Entry
	for i := range s.Remediations {
		r := &s.Remediations[i]
		if r.Namespace != m.Namespace || r.Name != m.Name {
			continue
		}
		entries = append(entries, record("remediation", "its health check found it unhealthy", &r.CreationTimestamp, ""))
		entries = append(entries, micro("remediation", "its step "+r.Status.Step+" began", r.Status.StepStartedAt, ""))
		entries = append(entries, transitions("remediation", r.Status.Conditions)...)
	}
	return entries
}

func node(s *snapshot.Snapshot, name string) []Entry {
	var entries []Entry
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Name != name {
			continue
		}
		entries = append(entries, record("node", "it registered", &n.CreationTimestamp, ""))
		for _, c := range n.Status.Conditions {
			entries = append(entries, Entry{
				At: c.LastTransitionTime.Time, Source: "condition", Object: "node",
				What: became(string(c.Type), string(c.Status), c.Reason), Says: screen.OneLine(c.Message),
			})
		}
	}
	return entries
}

func record(object, what string, at *metav1.Time, says string) Entry {
	if at == nil {
		return Entry{}
	}
	return Entry{At: at.Time, Source: "record", Object: object, What: what, Says: screen.OneLine(says)}
}

func micro(object, what string, at *metav1.MicroTime, says string) Entry {
	if at == nil {
		return Entry{}
	}
	return Entry{At: at.Time, Source: "record", Object: object, What: what, Says: screen.OneLine(says)}
}

// Write writes the entries as a table.
func Write(out io.Writer, sc screen.Screen, entries []Entry) error {
	table := screen.Table{Head: []string{"TIME", "OBJECT", "WHAT"}}
	for _, e := range entries {
		what := strings.TrimSuffix(e.What+": "+e.Says, ": ")
		if e.Count > 1 {
			what += fmt.Sprintf(" (%d times)", e.Count)
		}
		table.Rows = append(table.Rows, []screen.Cell{{Text: e.At.UTC().Format(time.RFC3339)}, {Text: e.Object}, {Text: what}})
	}
	return table.Write(out, sc)
}
