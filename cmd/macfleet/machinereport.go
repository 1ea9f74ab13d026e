package main

import (
	"fmt"
	"io"
	"time"

	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/converge/document"
)

// writeReport writes what a Mac recorded of its last converge: how it ended, and the steps
// that did something or failed.
func writeReport(out io.Writer, sc screen.Screen, r document.Report) error {
	fmt.Fprintln(out, sc.Paint(reportHead(r), screen.Head))
	table, unchanged := screen.Table{Head: []string{"STEP", "OUTCOME", "TOOK", "SAYS"}}, 0
	for _, s := range r.Steps {
		if s.Outcome == document.Unchanged {
			unchanged++
			continue
		}
		outcome := screen.Cell{Text: string(s.Outcome)}
		if s.Outcome == document.Failed {
			outcome = screen.Cell{Text: fmt.Sprintf("failed (%s)", s.Class), Mood: screen.Bad}
		}
		took := time.Duration(s.Millis) * time.Millisecond
		table.Rows = append(table.Rows, []screen.Cell{cellOf(s.Name), outcome, cellOf(took.String()), cellOf(s.Detail)})
	}
	if len(table.Rows) > 0 {
		if err := table.Write(out, sc); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "found as it should be: %s\n", show.Count(unchanged, "step"))
	return err
}

// reportEnd is how a run ended.
func reportEnd(r document.Report) string {
	switch {
	case r.Rebooting:
		return "reboots the Mac, and another run follows"
	case r.Exit != document.ExitUnchanged && r.Exit != document.ExitChanged:
		return fmt.Sprintf("failed (exit code %d)", r.Exit)
	}
	return "ended well"
}

func reportHead(r document.Report) string {
	head := fmt.Sprintf("%s of %s, build %s, revision %s: %s", r.Verb, r.Finished.UTC().Format(time.RFC3339), r.Build, r.Revision, reportEnd(r))
	if r.RolledBack != "" {
		head += "; build " + r.RolledBack + " failed and was replaced by the one before it"
	}
	return head
}

func cellOf(text string) screen.Cell { return screen.Cell{Text: text} }
