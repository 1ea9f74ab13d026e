package cost

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/cli/screen"
)

// Write writes the costs for people.
func (p Pool) Write(out io.Writer, sc screen.Screen) error {
	table := screen.Table{Head: []string{"TYPE", "COMMITMENT", "MACS", "FREE", "A DAY", "30 DAYS", "FLOOR UNTIL"}}
	for _, t := range p.Types {
		table.Rows = append(table.Rows, []screen.Cell{
			{Text: t.Type},
			{Text: t.Commitment},
			{Text: fmt.Sprint(t.Macs)},
			{Text: fmt.Sprint(t.Free)},
			{Text: t.Day.String()},
			{Text: t.Month.String()},
			{Text: p.until(t.LastFloor)},
		})
	}
	if err := table.Write(out, sc); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(p.says(sc), "\n"))
	return err
}

// until is a floor that is still ahead.
func (p Pool) until(at *time.Time) string {
	if at == nil || !at.After(p.At) {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

func (p Pool) says(sc screen.Screen) []string {
	lines := sc.Wrap(fmt.Sprintf("All of them cost %s a day and %s in 30 days, without tax; %s of that is to be paid even if all were given back now.", p.Day, p.Month, p.Floor), "")
	if len(p.Spare) > 0 {
		lines = append(lines, sc.Wrap("Past their floor and without a Machine, so that giving them back loses nothing that is paid for: "+names(p.Spare)+".", "")...)
		lines = append(lines, "Type: macfleet host wipe "+p.Spare[0].Host+" --terminate")
		if more := len(p.Spare) - 1; more > 0 {
			lines = append(lines, fmt.Sprintf("and likewise for %d more", more))
		}
	}
	if len(p.Leaving) > 0 {
		lines = append(lines, sc.Wrap("On their way out: "+names(p.Leaving)+".", "")...)
	}
	if len(p.Unpriced) > 0 {
		lines = append(lines, sc.Wrap("No price is known of "+strings.Join(p.Unpriced, ", ")+": they are not in these sums.", "")...)
	}
	return append(lines, sc.Wrap("Prices are the vendor's of "+p.Prices+", for Paris; what else you bought with a Mac is not in them.", "")...)
}

func names(macs []Mac) string {
	all := make([]string, 0, len(macs))
	for _, m := range macs {
		name := m.Host
		if m.From != nil {
			name += " from " + m.From.UTC().Format(time.RFC3339)
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}
