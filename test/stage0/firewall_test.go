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
	for name, c := range map[string]struct {
		beliefs mac.Beliefs
		cleared string // the step that clears what the older system left
	}{
		"a stale change is in the way": {mac.Beliefs{}, "firewall"},
		"tables that persist are":      {mac.Beliefs{PersistIsBusy: true, FlushKeepsPersist: true}, "firewall"},
		"ports are printed by name":    {mac.Beliefs{ServiceNames: true}, "firewall"},
		"the Mac is taken over":        {mac.Beliefs{PersistIsBusy: true, FlushKeepsPersist: true}, "former-firewall"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if err := b.LeaveStuck(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.SetBeliefs(t.Context(), c.beliefs); err != nil {
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
			d.Host.TakeOver = c.cleared != "firewall"
			d.Mac.Network.DenyPrivate, d.Mac.Network.Allow = true, []document.Allow{{CIDR: "10.1.2.3/32", Ports: []int{8008}}} // http-alt, as two others
			first := b.converge(s, d)
			d.Join = nil
			again := b.converge(s, d)
			for _, step := range []string{"firewall", c.cleared} {
				if first[step] != document.Changed || again[step] != document.Unchanged {
					t.Errorf("%s: %q, looked at again: %q", step, first[step], again[step])
				}
			}
		})
	}
}
