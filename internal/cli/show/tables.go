package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// column is what a table shows of an object.
type column[T any] struct {
	title string
	wide  bool
	cell  func(*T) screen.Cell
	// order sorts by more than the cell's text; none: by that.
	order func(a, b *T) int
}

func plain(text string) screen.Cell { return screen.Cell{Text: text} }

// tableOf has a row for each object, with the wide columns or without, sorted by the
// column of that name.
func tableOf[T any](objects []T, columns []column[T], wide bool, by string) (screen.Table, error) {
	sorted := slices.Clone(objects)
	if err := sortBy(sorted, columns, by); err != nil {
		return screen.Table{}, err
	}
	shown := slices.DeleteFunc(slices.Clone(columns), func(c column[T]) bool { return c.wide && !wide })
	table := screen.Table{}
	for _, c := range shown {
		table.Head = append(table.Head, c.title)
	}
	for i := range sorted {
		var row []screen.Cell
		for _, c := range shown {
			row = append(row, c.cell(&sorted[i]))
		}
		table.Rows = append(table.Rows, row)
	}
	return table, nil
}

func sortBy[T any](objects []T, columns []column[T], by string) error {
	if by == "" {
		by = columns[0].title
	}
	at := slices.IndexFunc(columns, func(c column[T]) bool { return flagName(c.title) == flagName(by) })
	if at < 0 {
		var known []string
		for _, c := range columns {
			known = append(known, flagName(c.title))
		}
		return fmt.Errorf("--sort-by %s is no column: choose one of %s", by, strings.Join(known, ", "))
	}
	order := columns[at].order
	if order == nil {
		order = func(a, b *T) int { return strings.Compare(columns[at].cell(a).Text, columns[at].cell(b).Text) }
	}
	slices.SortStableFunc(objects, func(a, b T) int { return order(&a, &b) })
	return nil
}

// flagName is a title as it is typed: KEPT OUT is kept-out.
func flagName(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }

// Hosts is the table of the pool.
func Hosts(hosts []infrav1.ScalewayAppleSiliconHost, now time.Time, wide bool, by string) (screen.Table, error) {
	type host = infrav1.ScalewayAppleSiliconHost
	return tableOf(hosts, []column[host]{
		{title: "HOST", cell: func(h *host) screen.Cell { return plain(h.Name) }},
		{title: "PHASE", cell: func(h *host) screen.Cell { return screen.Cell{Text: string(h.Status.Phase), Mood: HostMood(h)} }},
		{title: "SERVER", wide: true, cell: func(h *host) screen.Cell { return plain(h.Status.Server.Name) }},
		{title: "TYPE", cell: func(h *host) screen.Cell { return plain(h.Status.Server.Type) }},
		{title: "OS", wide: true, cell: func(h *host) screen.Cell { return plain(h.Status.Server.OSFamily) }},
		{title: "IP", wide: true, cell: func(h *host) screen.Cell { return plain(h.Status.Server.IP) }},
		{title: "CLAIM", cell: func(h *host) screen.Cell { return plain(claimOf(h)) }},
		{title: "KEPT OUT", cell: func(h *host) screen.Cell { return screen.Cell{Text: keptOut(h), Mood: screen.Bad} }},
		{title: "BILLED UNTIL", wide: true, cell: func(h *host) screen.Cell { return plain(stamp(h.Status.Server.DeletableAt)) }},
		{
			title: "AGE", cell: func(h *host) screen.Cell { return plain(ago(now, &h.CreationTimestamp.Time)) },
			order: func(a, b *host) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) },
		},
	}, wide, by)
}

func claimOf(h *infrav1.ScalewayAppleSiliconHost) string {
	if h.Spec.ClaimRef == nil {
		return ""
	}
	return h.Spec.ClaimRef.Name
}

func stamp(at *metav1.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// keptOut is why a host stays out of the pool, if it does, also while a Machine has it.
func keptOut(h *infrav1.ScalewayAppleSiliconHost) string {
	if c := meta.FindStatusCondition(h.Status.Conditions, infrav1.KeptOutCondition); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason
	}
	return ""
}

// HostMood is what a host wants to be noticed for.
func HostMood(h *infrav1.ScalewayAppleSiliconHost) screen.Mood {
	switch h.Status.Phase {
	case infrav1.HostInUse, infrav1.HostAvailable:
		return screen.Good
	case infrav1.HostStranded, infrav1.HostDirty, infrav1.HostQuarantined, infrav1.HostGone:
		return screen.Bad
	}
	return screen.Busy
}

// Machines is the table of the Machines that have Macs, or wait for one.
func Machines(s *snapshot.Snapshot, wide bool, by string) (screen.Table, error) {
	type machine = infrav1.ScalewayAppleSiliconMachine
	columns := []column[machine]{
		{title: "MACHINE", cell: func(m *machine) screen.Cell { return plain(m.Name) }},
		{title: "PHASE", cell: func(m *machine) screen.Cell {
			return screen.Cell{Text: PhaseOf(s, m), Mood: MachineMood(PhaseOf(s, m))}
		}},
		{title: "HOST", wide: true, cell: func(m *machine) screen.Cell { return plain(m.Status.HostName) }},
		{title: "REVISION", wide: true, cell: func(m *machine) screen.Cell { return plain(m.Status.Applied.Revision) }},
		{title: "FLEET", wide: true, cell: func(m *machine) screen.Cell { return plain(m.Spec.FleetName) }},
		{
			title: "AGE", cell: func(m *machine) screen.Cell { return plain(ago(s.At, &m.CreationTimestamp.Time)) },
			order: func(a, b *machine) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) },
		},
		{title: "WHY NOT", cell: func(m *machine) screen.Cell { return plain(whyNot(s, m)) }},
	}
	if namespaces(s.Machines) > 1 {
		columns = slices.Insert(columns, 1, column[machine]{title: "NAMESPACE", cell: func(m *machine) screen.Cell { return plain(m.Namespace) }})
	}
	return tableOf(s.Machines, columns, wide, by)
}

func namespaces(machines []infrav1.ScalewayAppleSiliconMachine) int {
	seen := map[string]bool{}
	for i := range machines {
		seen[machines[i].Namespace] = true
	}
	return len(seen)
}

// MachineMood is what a Machine of this phase wants to be noticed for.
func MachineMood(phase string) screen.Mood {
	switch phase {
	case "Running":
		return screen.Good
	case "Lost", "Unreachable", "NotReady":
		return screen.Bad
	}
	return screen.Busy
}

// whyNot is what a Machine that is not as it should be says, what its Node lacks, and what its
// remediation says, which bears its name.
func whyNot(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) string {
	var why []string
	if c := PauseOf(s, m); c != nil {
		why = append(why, because(c.Reason, c.Message))
	}
	if c := DrainOf(s, m); c != nil {
		why = append(why, because(c.Reason+" for "+ago(s.At, &c.LastTransitionTime.Time), c.Message))
	}
	if c := Hindrance(Conditions(s, m)); c != nil {
		why = append(why, because(c.Reason, heldBack(c.Message)))
	}
	if c := pressureOf(s, m); c != nil {
		why = append(why, because(c.Reason, c.Message))
	}
	for i := range s.Remediations {
		r := &s.Remediations[i]
		if r.Namespace != m.Namespace || r.Name != m.Name {
			continue
		}
		if c := meta.FindStatusCondition(r.Status.Conditions, infrav1.RemediatedCondition); c != nil && Unhealthy(*c) {
			why = append(why, because(c.Reason, heldBack(c.Message)))
		}
	}
	return strings.Join(why, "; ")
}
