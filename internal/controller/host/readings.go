package host

import (
	"slices"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// reading is the newest thing known about one server.
type reading struct {
	server cloud.Server
	// at is when the call that showed the server was begun: a list that began
	// before a rename must not overrule the reading after it.
	at time.Time
	// missingSince: lists have lacked the server since then.
	missingSince time.Time
	// lackedSince is missingSince by the lists that were believed: one that shows a
	// loss of rights is no first witness for the next that misses a server.
	lackedSince time.Time
	gone        bool
}

// readings are all servers' newest readings, by zone and id.
type readings struct {
	mu    sync.Mutex
	zones map[string]map[string]*reading
}

func (r *readings) zone(zone string) map[string]*reading {
	if r.zones == nil {
		r.zones = map[string]map[string]*reading{}
	}
	if r.zones[zone] == nil {
		r.zones[zone] = map[string]*reading{}
	}
	return r.zones[zone]
}

// newest returns the newest reading of a server, if there is one.
func (r *readings) newest(zone, id string) (reading, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.zone(zone)[id]; known != nil {
		return *known, true
	}
	return reading{}, false
}

// put keeps what a call begun at that time showed, unless something newer is known.
func (r *readings) put(server cloud.Server, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(server, at)
}

func (r *readings) keep(server cloud.Server, at time.Time) {
	zone := r.zone(server.Zone)
	if known := zone[server.ID]; known == nil || !known.at.After(at) {
		zone[server.ID] = &reading{server: server, at: at}
	}
}

// forget drops a server whose Host is removed.
func (r *readings) forget(zone, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.zone(zone), id)
}

// expectation is what a list of a zone ought to hold.
type expectation struct {
	ids []string // sorted
	// others are servers whose Hosts another watch filter's manager works for.
	others map[string]bool
	// elsewhere are those of another project, whose lists alone could prove them gone.
	elsewhere map[string]bool
	// returned are those that we gave back to the vendor, and that may go by now.
	returned map[string]bool
	// deleted are those of them that the vendor said it deleted: of these alone an empty
	// list is believed as soon as any other.
	deleted map[string]bool
	// expendable are those, and the ones whose Hosts a person deleted while they
	// were released: an empty list that lacks them for long is believed.
	expendable map[string]bool
	// proof says for which of them a list is proof of absence.
	proof func(id string) bool
}

// known reports that the server has a Host.
func (e expectation) known(id string) bool {
	_, found := slices.BinarySearch(e.ids, id)
	return found || e.others[id]
}

// list takes in a whole list of a zone, begun at that time. It returns how many are
// missing, our own deletions aside: when host.Suspicious says that those are too
// many, the list is not believed.
func (r *readings) list(zone string, servers []cloud.Server, expected expectation, at time.Time) (unexplained int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	listed := make(map[string]bool, len(servers))
	for _, server := range servers {
		listed[server.ID] = true
		r.keep(server, at)
	}
	missing := map[string]*reading{}
	for _, id := range expected.ids {
		if listed[id] {
			continue
		}
		missing[id] = r.miss(zone, id, at)
		if !expected.returned[id] && !missing[id].gone { // what is proved gone vanishes but once
			unexplained++
		}
	}
	suspicious := host.Suspicious(len(expected.ids), unexplained, len(servers))
	for id, m := range missing {
		since := m.missingSince
		if !suspicious {
			if m.lackedSince.IsZero() && !since.IsZero() {
				m.lackedSince = at
			}
			since = m.lackedSince
		}
		patient := suspicious || len(servers) == 0 && !expected.deleted[id]
		if !expected.elsewhere[id] && host.ProvedGone(since, at, patient, len(servers), expected.proof(id)) {
			m.gone = true
		}
	}
	return unexplained
}

// miss notes that a list begun at that time lacked the server.
func (r *readings) miss(zone, id string, at time.Time) *reading {
	known := r.zone(zone)[id]
	if known == nil {
		known = &reading{at: at}
		r.zone(zone)[id] = known
	}
	if known.missingSince.IsZero() && !known.at.After(at) {
		known.missingSince = at
	}
	return known
}

// bears reports that the newest reading of some server of the zone shows the name.
func (r *readings) bears(zone, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.zone(zone) {
		if known.server.Name == name && known.missingSince.IsZero() {
			return true
		}
	}
	return false
}
