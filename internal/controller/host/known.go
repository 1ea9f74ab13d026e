package host

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/host"
)

// firstSeen remembers of each Host when the times it records were first seen here. It is
// lost with the process: then what must pass after them passes once more.
type firstSeen struct {
	mu sync.Mutex
	of map[string]*sightings
}

// sightings are those of one Host.
type sightings struct{ required, requested, started, shown sighting }

// sighting is one time of the record, and when it was first seen.
type sighting struct{ recorded, seen time.Time }

// at is when the time that is on record was first seen; zero: there is none.
func (s *sighting) at(recorded *metav1.MicroTime, now time.Time) time.Time {
	switch {
	case recorded == nil:
		*s = sighting{}
	case s.seen.IsZero() || !s.recorded.Equal(recorded.Time):
		*s = sighting{recorded.Time, now}
	}
	return s.seen
}

// note takes in what the Host records, seen now.
func (k *firstSeen) note(h *host.Host, now time.Time) host.Known {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := k.of[h.Name]
	if of == nil {
		of = &sightings{}
		if k.of == nil {
			k.of = map[string]*sightings{}
		}
		k.of[h.Name] = of
	}
	wipe := h.Spec.Record.Wipe
	return host.Known{
		Required: of.required.at(wipe.RequiredSince, now), Requested: of.requested.at(wipe.RequestedAt, now),
		Started: of.started.at(wipe.StartedAt, now), Shown: of.shown.at(h.Status.ShownSince, now),
	}
}

// forget drops a Host that is removed.
func (k *firstSeen) forget(h *host.Host) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, h.Name)
}
