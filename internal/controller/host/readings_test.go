package host

import (
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// TestWhatIsGoneVanishesButOnce: Hosts of dead servers stay until their Machines let
// go of them. They must not make the next server that dies suspicious.
func TestWhatIsGoneVanishesButOnce(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e", "f"}
	expected := expectation{ids: all, proof: func(string) bool { return true }}
	listed := func(ids ...string) (out []cloud.Server) {
		for _, id := range ids {
			out = append(out, cloud.Server{ID: id, Zone: zone})
		}
		return out
	}
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var r readings
	for n, look := range []struct {
		servers    []cloud.Server
		suspicious bool
	}{
		{listed(all...), false},
		{listed(all[2:]...), false},
		{listed(all[2:]...), false}, // a and b are proved gone
		{listed(all[3:]...), false},
		{listed(all[3:]...), false}, // c is, too
		{listed(), true},
	} {
		at := start.Add(time.Duration(n) * host.GoneAfter)
		if got := r.list(zone, look.servers, expected, at); got != look.suspicious {
			t.Errorf("list %d: suspicious %v, want %v", n, got, look.suspicious)
		}
	}
	for _, id := range all[:3] {
		if seen, _ := r.look(zone, id); !seen.gone {
			t.Errorf("server %s is not proved gone", id)
		}
	}
}
