package firewall_test

import (
	"slices"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/sandbox/mac/pf"
)

// TestTheAgentReadsWhatPfctlPrints: the agent's readers and the simulated pfctl
// were written apart.
func TestTheAgentReadsWhatPfctlPrints(t *testing.T) {
	w := boot(t, fenced(), pf.Beliefs{})
	w.start()
	token, err := macos.ParsePFToken(w.pfctl("", "-E").Stderr)
	if err != nil {
		t.Fatal(err)
	}
	tokens := macos.ParsePFTokens(w.pfctl("", "-s", "References").Stdout)
	if len(tokens) != 3 || !slices.Contains(tokens, token) {
		t.Errorf("tokens %v, want three with %s: ours twice and the sharing service's", tokens, token)
	}
	if on, err := macos.ParsePFStatus(w.pfctl("", "-s", "info").Stdout); err != nil || !on {
		t.Errorf("enabled %v, %v", on, err)
	}
	w.pfctl("", "-d")
	if on, err := macos.ParsePFStatus(w.pfctl("", "-s", "info").Stdout); err != nil || on {
		t.Errorf("disabled, but enabled %v, %v", on, err)
	}
}
