package host

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/memo"
	"github.com/macfleet/macfleet/internal/watch"
)

// firstSeen remembers of each Host, by name, when the times it records were first seen
// here. It is lost with the process: then what must pass after them passes once more.
type firstSeen struct {
	memo.Memo[string, sightings]
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
func (f *firstSeen) note(h *host.Host, now time.Time) (since host.FirstSeen) {
	f.Change(h.Name, func(of *sightings) {
		wipe := h.Spec.Record.Wipe
		since = host.FirstSeen{
			Required: of.required.at(wipe.RequiredSince, now), Requested: of.requested.at(wipe.RequestedAt, now),
			Started: of.started.at(wipe.StartedAt, now), Shown: of.shown.at(h.Status.ShownSince, now),
		}
	})
	return since
}

// statuses remember the last status of each Host, by name, that was written here. It is no
// news to who wrote it: the pass has decided from that status. An event of it that comes
// before the answer wakes the host once for nothing.
type statuses struct {
	memo.Memo[string, ownStatus]
}

// ownStatus is the version that the status was written on, and the one that it made.
type ownStatus struct{ from, as string }

// news lets every event through but those that tell of nothing but our own status, and of
// what pushes note of the Mac. A status is written under no version, and a watch that begins
// anew tells of all since the last event at once: what others wrote in between is news.
func (s *statuses) news() predicate.Predicate {
	return watch.Updates(func(before, now *host.Host) bool {
		if before.ResourceVersion == now.ResourceVersion {
			return true // a resync
		}
		was, is := withoutPushes(before), withoutPushes(now)
		if s.Get(now.Name) == (ownStatus{before.ResourceVersion, now.ResourceVersion}) {
			was.Status = is.Status
		}
		return !equality.Semantic.DeepEqual(was, is)
	})
}

// withoutPushes is the host without what the pushes of its Machine keep on its record: none
// of this controller's phases looks at that.
func withoutPushes(h *host.Host) *host.Host {
	rest := *h
	rest.ResourceVersion, rest.Generation, rest.ManagedFields = "", 0, nil
	record := &rest.Spec.Record
	record.HostKey, record.Hardware, record.PasswordAttempts, record.Registration = nil, nil, nil, nil
	record.Bootstrap = infrav1.BootstrapRecord{}
	return &rest
}

// storedServers remember of each Host, by name, what its status says of the server, and since
// when that is known here.
type storedServers struct {
	memo.Memo[string, storedServer]
}

// storedServer is what a status says of the server. Since is zero where it was written here, or
// is as this process found it.
type storedServer struct {
	known   bool
	server  infrav1.ServerStatus
	missing *metav1.MicroTime
	since   time.Time
}

func storedServerOf(h *host.Host, since time.Time) storedServer {
	return storedServer{known: true, server: h.Status.Server, missing: h.Status.MissingSince, since: since}
}

// says the same of the server.
func (s storedServer) says(h *host.Host) bool {
	return sameServer(s.server, h.Status.Server) && s.missing.Equal(h.Status.MissingSince)
}

// wrote notes what was written here.
func (s *storedServers) wrote(h *host.Host) { s.Set(h.Name, storedServerOf(h, time.Time{})) }

// writtenByOthers is when a status was first seen here that says something else of the server than
// this manager has written; zero: there is none. One that says nothing is to be filled in.
func (s *storedServers) writtenByOthers(h *host.Host, now time.Time) time.Time {
	return s.Change(h.Name, func(last *storedServer) {
		switch {
		case !last.known, h.Status.Server.Name == "":
			*last = storedServerOf(h, time.Time{})
		case !last.says(h):
			*last = storedServerOf(h, now)
		}
	}).since
}

// requests remember when the vendor acknowledged the reinstall of each host, or its
// deletion. They are lost with the process: then the request is repeated at once,
// which costs a second wipe at most.
type requests struct {
	memo.Memo[types.UID, acknowledged]
}

type acknowledged struct {
	generation int64
	at         time.Time
}

func (r *requests) note(h *host.Host, now time.Time) {
	r.Set(h.UID, acknowledged{h.Spec.Record.Wipe.Generation, now})
}

// lately: this very wipe was acknowledged too short a time ago to ask again.
func (r *requests) lately(h *host.Host, now time.Time) bool {
	last := r.Get(h.UID)
	return !last.at.IsZero() && last.generation == h.Spec.Record.Wipe.Generation && now.Before(last.at.Add(host.RepeatWipe))
}
