package stage0

import (
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestRequirement002_AStuckMacConverges: an older system left tables in two scopes
// and a pf.conf that cannot be loaded. Whatever the packet filter makes of tables
// that persist, the Mac gets its firewall, and stays as it is at the second look.
func TestRequirement002_AStuckMacConverges(t *testing.T) {
	parttest.Skip(t)
	for name, beliefs := range map[string]mac.Beliefs{
		"a stale change is in the way": {},
		"tables that persist are":      {PersistIsBusy: true, FlushKeepsPersist: true},
		"ports are printed by name":    {ServiceNames: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if err := b.LeaveStuck(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.SetBeliefs(t.Context(), beliefs); err != nil {
				t.Fatal(err)
			}
			s := b.session()
			b.probe(s)
			if err := s.Grant(t.Context(), secret(password)); err != nil {
				t.Fatal(err)
			}
			build := programs.builds[0]
			if _, err := s.Receive(t.Context(), build); err != nil {
				t.Fatal(err)
			}
			d := b.desired(build)
			if got := b.converge(s, d)["firewall"]; got != document.Changed {
				t.Errorf("firewall: %q", got)
			}
			d.Join = nil
			if got := b.converge(s, d)["firewall"]; got != document.Unchanged {
				t.Errorf("firewall, looked at again: %q", got)
			}
		})
	}
}
