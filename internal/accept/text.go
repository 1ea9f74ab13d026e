package accept

import (
	"fmt"
	"strings"
	"time"
)

// mostShown is how many lines of a row people are shown; JSON has all.
const mostShown = 12

// Text is the report for people.
func (r Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "macfleet host accept, %s: a %s with %d CPUs, %d GiB, macOS %s (%s)\n",
		r.Version, r.Mac.Model, r.Mac.CPUs, r.Mac.GiBytes, r.Mac.OS, r.Mac.Build)
	fmt.Fprintf(&b, "from %s to %s\n", r.Started.UTC().Format(time.RFC3339), r.Finished.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "%d rows: %d as simulated, %d differ, %d not simulated, %d not tried\n",
		len(r.Rows), r.Count(AsSimulated), r.Count(Differs), r.Count(NotSimulated), r.Count(NotTried))
	section := ""
	for _, row := range r.Rows {
		if row.Section != section {
			section = row.Section
			fmt.Fprintf(&b, "\n%s\n", section)
		}
		row.write(&b)
	}
	b.WriteString("\nthe open questions about macOS\n")
	for _, a := range r.Questions {
		found := a.Why
		if len(a.Rows) > 0 {
			found = "see " + strings.Join(a.Rows, ", ")
		}
		fmt.Fprintf(&b, "  %-4s %s\n       %s\n", a.ID, a.Question, found)
	}
	fmt.Fprintf(&b, "\nleft on the Mac: %s\n", r.Left)
	return b.String()
}

func (r Row) write(b *strings.Builder) {
	took := ""
	if r.Seconds >= 1 {
		took = fmt.Sprintf(" (%.0f s)", r.Seconds)
	}
	fmt.Fprintf(b, "  %-13s  %-22s  %s%s\n", r.Verdict, r.ID, r.Asked, took)
	say := func(what, text string) {
		if text != "" {
			fmt.Fprintf(b, "%17s%s: %s\n", "", what, text)
		}
	}
	say("why", r.Why)
	switch r.Verdict {
	case Differs:
		sayLines(say, "expected, not here", r.Lacking)
		sayLines(say, "here, not expected", r.Unexpected)
		sayLines(say, "seen", r.Seen)
	case NotSimulated:
		sayLines(say, "seen", r.Seen)
	}
	say("said", r.Detail)
}

func sayLines(say func(what, text string), what string, lines []string) {
	for i, line := range lines {
		if i == mostShown {
			say(what, fmt.Sprintf("… and %d lines more, in the JSON", len(lines)-i))
			return
		}
		say(what, line)
	}
}
