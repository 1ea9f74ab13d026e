package firewall

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

func TestProofsCoverTheTimeABridgeTakes(t *testing.T) {
	var all time.Duration
	for _, d := range bootDelays() {
		all += d
	}
	if all < 5*time.Second || len(bootDelays()) < 2 {
		t.Errorf("proofs end %s after the start", all)
	}
}

// A guard that knows better than "not proved" is quoted.
func TestTheReasonIsTheGuardsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		err           error
		reason, event string
	}{
		"no session": {&NotProvedError{fmt.Errorf("asking: %w", sessionless{})}, "NoConsoleSession", "NoConsoleSession"},
		"not proved": {&NotProvedError{errors.New("pf is off")}, state.ReasonNotProved, state.ReasonNotProved},
		"a VM":       {errors.New("no such image"), state.ReasonRunError, "Failed"},
	} {
		if reason, event := Reason(c.err), EventReason(c.err); reason != c.reason || event != c.event {
			t.Errorf("%s: reason %q, event %q", name, reason, event)
		}
	}
}

type sessionless struct{}

func (sessionless) Error() string     { return "no session" }
func (sessionless) PodReason() string { return "NoConsoleSession" }
func (sessionless) Proved() bool      { return true }
