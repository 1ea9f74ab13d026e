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
		missing := r.list(zone, look.servers, expected, at)
		if got := host.Suspicious(len(all), missing, len(look.servers)); got != look.suspicious {
			t.Errorf("list %d: %d missing, suspicious %v, want %v", n, missing, got, look.suspicious)
		}
	}
	for _, id := range all[:3] {
		if seen, _ := r.newest(zone, id); !seen.gone {
			t.Errorf("server %s is not proved gone", id)
		}
	}
}

// A list that rights were lost for is no first witness: the next list, which is whole
// but for the one server that it missed, proves nothing by itself.
func TestAListThatIsNotBelievedIsNoWitness(t *testing.T) {
	var r readings
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	all := []cloud.Server{{ID: "a", Zone: zone}, {ID: "b", Zone: zone}, {ID: "c", Zone: zone}}
	expected := expectation{ids: []string{"a", "b", "c"}, proof: func(string) bool { return true }}
	gone := func() bool { seen, _ := r.newest(zone, "c"); return seen.gone }
	r.list(zone, all, expected, began)
	if r.list(zone, nil, expected, began.Add(time.Minute)) == 0 {
		t.Fatal("an empty list is believed")
	}
	if r.list(zone, all[:2], expected, began.Add(3*time.Minute)); gone() {
		t.Error("one list that misses a server is believed after an empty one")
	}
	if r.list(zone, all[:2], expected, began.Add(3*time.Minute+host.GoneAfter)); !gone() {
		t.Error("two lists that are believed prove nothing")
	}
}

// An order whose server was seen does not rest: one that is gone by now is none.
func TestAServerThatIsMissingBearsNoName(t *testing.T) {
	var r readings
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	expected := expectation{ids: []string{"a"}, proof: func(string) bool { return true }}
	r.list(zone, []cloud.Server{{ID: "a", Zone: zone, Name: "m-9"}}, expected, began)
	if !r.bears(zone, "m-9") || r.bears(zone, "m-8") || r.bears("fr-par-3", "m-9") {
		t.Error("the server that is listed bears its name, in its zone, and no other")
	}
	if r.list(zone, nil, expected, began.Add(time.Minute)); r.bears(zone, "m-9") {
		t.Error("borne by a server that is missing")
	}
}
