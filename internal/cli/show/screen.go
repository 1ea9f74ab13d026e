package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/screen"
)

// phases is the order that hosts are counted in: of use, then on their way, then of trouble.
var phases = []infrav1.HostPhase{
	infrav1.HostInUse, infrav1.HostClaimed, infrav1.HostAvailable, infrav1.HostOrdering, infrav1.HostDiscovered,
	infrav1.HostReleasing, infrav1.HostWiping, infrav1.HostRetiring, infrav1.HostMaintenance, infrav1.HostQuarantined,
	infrav1.HostStranded, infrav1.HostDirty, infrav1.HostForeign, infrav1.HostHandedOver, infrav1.HostGone,
}

// HostPhases are those that a host can be in.
func HostPhases() []string {
	words := make([]string, len(phases))
	for i, phase := range phases {
		words[i] = string(phase)
	}
	return words
}

// Write writes the one screen.
func (s Status) Write(out io.Writer, sc screen.Screen) error {
	parts := []func(io.Writer, screen.Screen) error{s.pool, s.fleets, s.waits("WAITS", s.Waits, screen.Busy), s.waits("NEEDS A PERSON", s.Person, screen.Bad), s.last}
	for _, part := range parts {
		if err := part(out, sc); err != nil {
			return err
		}
	}
	return nil
}

func (s Status) pool(out io.Writer, sc screen.Screen) error {
	lines := sc.Wrap(s.Pool.Says(), "       ")
	lines[0] = sc.Paint("POOL", screen.Head) + "   " + strings.TrimSpace(lines[0])
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// Says counts the Macs, and what they are at. An order is no Mac yet.
func (p Pool) Says() string {
	var counts []string
	for _, phase := range phases {
		if n := p.Phases[phase]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, phase))
		}
	}
	macs := Count(p.Hosts-p.Ordered, "Mac")
	if p.Ordered > 0 {
		macs += fmt.Sprintf(" and %d ordered", p.Ordered)
	}
	said := strings.TrimSuffix(macs+": "+strings.Join(counts, ", "), ": ")
	if p.Unwatched {
		said += "; no Cluster of Macs is to be seen, which would say whether the vendor answers"
	}
	return said
}

// Count is a number of things.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (s Status) fleets(out io.Writer, sc screen.Screen) error {
	table := screen.Table{Head: []string{"FLEET", "AVAILABLE", "UPDATED", "ROLLOUT", "SAYS"}}
	for _, f := range s.Fleets {
		available := screen.Cell{Text: fmt.Sprintf("%d of %d", f.Available, f.Wanted), Mood: screen.Good}
		if f.Available < f.Wanted {
			available.Mood = screen.Busy
		}
		updated := ""
		if f.Profile != "" {
			updated = fmt.Sprintf("%d of %d", f.Updated, f.Machines)
		}
		table.Rows = append(table.Rows, []screen.Cell{{Text: f.Namespace + "/" + f.Name}, available, {Text: updated}, {Text: f.Rollout}, {Text: f.Message}})
	}
	if len(table.Rows) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	return table.Write(out, sc)
}

func (s Status) waits(title string, items []Item, mood screen.Mood) func(io.Writer, screen.Screen) error {
	return func(out io.Writer, sc screen.Screen) error {
		table := screen.Table{Head: []string{title, "FOR", "WHY"}}
		for _, i := range Folded(items) {
			table.Rows = append(table.Rows, []screen.Cell{{Text: i.Object()}, {Text: ago(s.At, i.Since)}, {Text: because(i.Reason, i.Message), Mood: mood}})
		}
		if len(table.Rows) == 0 {
			return nil
		}
		fmt.Fprintln(out)
		if err := table.Write(out, sc); err != nil {
			return err
		}
		return commands(out, Folded(items))
	}
}

// manyCommands are shown; of more the rest is counted.
const manyCommands = 4

// commands are what can be typed for these items, on lines that are never cut: they are
// copied. One that helps with all of its kind is there once, and for no more.
func commands(out io.Writer, items []Item) error {
	var lines []string
	more := 0
	for _, i := range items {
		line := "Type: " + i.Command
		switch {
		case i.Command == "", slices.Contains(lines, line):
			continue
		case len(lines) < manyCommands:
			lines = append(lines, line)
		default:
			more++
		}
		if i.Command != lookAtPool {
			more += i.More
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and likewise for %d more", more))
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// last says where to read on, or that all is well.
func (s Status) last(out io.Writer, sc screen.Screen) error {
	text := "Nothing waits, and nobody is needed."
	switch all := slices.Concat(s.Person, s.Waits); {
	case len(all) == 1 && all[0].More == 0 && all[0].Explained():
		_, err := fmt.Fprintf(out, "\nThe whole story: macfleet explain %s\n", all[0].Object()) // never cut: it is copied
		return err
	case len(all) > 0:
		text = "Whole stories: macfleet explain host|machine|pod|profile|cluster NAME, with the NAME of its line"
	case len(s.Missing) > 0:
		text = "Nothing of what you may see waits."
	}
	_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(sc.Wrap(text, ""), "\n"))
	return err
}

// Explained says whether explain knows a kind.
func Explained(kind string) bool {
	return slices.Contains([]string{"host", "machine", "profile", "pod", "cluster", "controlplane"}, kind)
}

// Explained says whether there is a story of an item.
func (i Item) Explained() bool { return Explained(i.Kind) }

// Because is why it waits.
func (i Item) Because() string { return because(i.Reason, i.Message) }

func because(reason, message string) string {
	return strings.TrimSuffix(reason+": "+screen.OneLine(message), ": ")
}

// ago is how long something lasts, as kubectl writes ages.
func ago(now time.Time, since *time.Time) string {
	if since == nil || since.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(*since))
}
