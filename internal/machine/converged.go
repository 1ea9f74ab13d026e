package machine

import (
	"fmt"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
)

// mostDetail is how much of a failed step's own words an event has: its note has an end, and
// the steps that were changed are to be in it, too.
const mostDetail = 300

// Converged is what a converge did to a Mac, in one line: the steps that changed something, and
// the one that failed. Empty: all was as it should be, or the Mac gave no report. Failed is not
// what only waits for its time.
func Converged(r document.Report) (did string, failed bool) {
	var changed, parts []string
	for _, s := range r.Steps {
		if s.Outcome == document.Changed {
			changed = append(changed, s.Name)
		}
	}
	if len(changed) > 0 {
		parts = append(parts, "changed "+strings.Join(changed, ", "))
	}
	if s, is := r.FailedStep(); is {
		parts = append(parts, fmt.Sprintf("step %s failed (%s): %s", s.Name, s.Class, host.Bounded(s.Detail, mostDetail)))
		failed = s.Class != document.Wait
	}
	if r.RolledBack != "" {
		parts = append(parts, fmt.Sprintf("the Mac went back from build %.12s to the one before", r.RolledBack))
	}
	if r.Rebooting {
		parts = append(parts, "the Mac reboots, and another run follows")
	}
	return host.Bounded(strings.Join(parts, "; "), host.MostNote), failed
}
