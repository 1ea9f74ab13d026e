// Package board is a read-only page of a fleet: the pool as tiles, the fleets with their
// rollouts, what waits and what needs a person, and each object's story. What it shows is
// decided from a snapshot by pure functions; a feed keeps the snapshot true by watches,
// and a server on loopback sends the page's parts as they change.
package board

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/cli/timeline"
)

// Kinds are what a board shows, and what the stories on it are told from.
func Kinds() []snapshot.Kind {
	kinds := []snapshot.Kind{snapshot.Pods, snapshot.Events}
	for _, of := range [][]snapshot.Kind{show.StatusKinds(), explain.HostKinds(), explain.MachineKinds(), explain.ProfileKinds(), explain.PodKinds(), explain.ClusterKinds()} {
		for _, kind := range of {
			if kind != snapshot.PendingPods && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// recent is how many events are shown.
const recent = 20

// view is what the page's parts are written from.
type view struct {
	show.Status
	Tiles  []tile
	Events []event
	// Trouble is why the page may be behind.
	Trouble string
}

func viewOf(s *snapshot.Snapshot, book reasons.Book, trouble string) view {
	return view{Status: show.StatusOf(s, book), Tiles: tilesOf(s), Events: eventsOf(s), Trouble: trouble}
}

// event is something that was told of an object.
type event struct {
	Ago, Object, Kind, Namespace, Name, Reason, Message string
	Warning                                             bool
}

// Explained says whether there is a story of its object.
func (e event) Explained() bool { return show.Explained(e.Kind) }

func eventsOf(s *snapshot.Snapshot) []event {
	type dated struct {
		at time.Time
		*corev1.Event
	}
	all := make([]dated, len(s.Events))
	for i := range s.Events {
		all[i].Event = &s.Events[i]
		all[i].at, _ = timeline.LastSeen(&s.Events[i])
	}
	slices.SortFunc(all, func(a, b dated) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.Name, b.Name)) })
	events := make([]event, 0, recent)
	for _, e := range all[:min(len(all), recent)] {
		of := e.InvolvedObject
		events = append(events, event{
			Ago: since(s.At, e.at), Kind: timeline.KindOf(of.Kind), Namespace: of.Namespace, Name: of.Name,
			Reason: e.Reason, Message: e.Message, Warning: e.Type == corev1.EventTypeWarning,
		})
	}
	return events
}

// storyOf is an object's story. It fails when the object is not there any more.
func storyOf(s *snapshot.Snapshot, book reasons.Book, kind, namespace, name string) (explain.Story, error) {
	full := namespace + "/" + name
	switch kind {
	case "host":
		h, err := explain.FindHost(s.Hosts, name, true)
		return tell(s, book, h, err, explain.Host)
	case "machine":
		m, err := explain.FindExactly(s.Machines, kind, full)
		if c := explain.FindNoInfrastructure(s, full); err != nil && c != nil {
			return explain.NoInfrastructure(s, book, c), nil
		}
		return tell(s, book, m, err, explain.Machine)
	case "profile":
		p, err := explain.FindExactly(s.Profiles, kind, full)
		return tell(s, book, p, err, explain.Profile)
	case "cluster":
		c, err := explain.FindExactly(s.Zones, kind, full)
		return tell(s, book, c, err, explain.Cluster)
	case "controlplane":
		p, err := explain.FindExactly(s.ControlPlanes, kind, full)
		return tell(s, book, p, err, explain.ControlPlane)
	case "pod":
		p, err := explain.FindExactly(s.Pods, kind, full)
		return tell(s, book, p, err, explain.Pod)
	}
	return explain.Story{}, explain.UnknownError{Kind: kind, Name: name}
}

func tell[T any](s *snapshot.Snapshot, book reasons.Book, object T, err error, story func(*snapshot.Snapshot, reasons.Book, T) explain.Story) (explain.Story, error) {
	if err != nil {
		return explain.Story{}, err
	}
	return story(s, book, object), nil
}
