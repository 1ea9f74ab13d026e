package snapshot

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names are those of all objects of a kind, sorted.
func (s *Snapshot) Names(kind Kind) []string {
	var names []string
	switch kind {
	case Hosts:
		names = namesOf(s.Hosts)
	case Machines:
		names = namesOf(s.Machines)
	case Profiles:
		names = namesOf(s.Profiles)
	case Zones:
		names = namesOf(s.Zones)
	case Clusters:
		names = namesOf(s.Clusters)
	case Fleets:
		names = namesOf(s.Fleets)
	case ControlPlanes:
		names = namesOf(s.ControlPlanes)
	case Pods, PendingPods:
		names = namesOf(s.Pods)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// namesOf are the names of objects of any kind.
func namesOf[T any, P interface {
	*T
	client.Object
}](objects []T) []string {
	names := make([]string, len(objects))
	for i := range objects {
		names[i] = P(&objects[i]).GetName()
	}
	return names
}
