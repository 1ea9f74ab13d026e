package converge

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
)

func TestRequestedRestartIsMadeOnce(t *testing.T) {
	f := newFixture(t)
	f.converge()
	before := f.mac.PID(document.AgentLabel)
	for _, wish := range []struct {
		id   string
		want []string
	}{
		{"first", []string{"kickstart -k"}},
		{"first", nil},
		{"", nil}, // a push that wishes for none
		{"first", nil},
		{"second", []string{"kickstart -k"}},
	} {
		f.desired.Restart = wish.id
		f.converge()
		if diff := cmp.Diff(wish.want, f.did(document.AgentLabel)); diff != "" {
			t.Errorf("restart %q: %s", wish.id, diff)
		}
	}
	if f.mac.PID(document.AgentLabel) == before {
		t.Error("the agent is the process it was")
	}
}

// A wish that was not proved is still one.
func TestRequestedRestartThatDidNothingIsRepeated(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.desired.Restart = "first"
	f.mac.DeafKickstart = true
	f.refused("launchd", document.Retry, "was not restarted")
	f.mac.DeafKickstart = false
	f.converge()
	if diff := cmp.Diff([]string{"kickstart -k"}, f.did(document.AgentLabel)); diff != "" {
		t.Error(diff)
	}
}

// Whatever restarts the agent anyway fulfils the wish.
func TestRequestedRestartJoinsAnother(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.desired.Restart, f.desired.Node.MaxVMs = "first", 1
	f.converge()
	f.converge()
	if calls := f.did(document.AgentLabel); calls != nil {
		t.Errorf("restarted again: %v", calls)
	}
}
