package snapshot

import (
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
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

// WithoutKind is NAME of KIND/NAME, as `-o name` prints it, where KIND is one of the kinds: its
// plural, singular or short name, with or without its group. All else is as it was typed.
func WithoutKind(typed string, kinds ...Kind) string {
	kind, name, both := strings.Cut(typed, "/")
	word, group, grouped := strings.Cut(strings.ToLower(kind), ".")
	if !both || name == "" {
		return typed
	}
	for _, k := range kinds {
		words, of := k.words()
		if slices.Contains(words, word) && (!grouped || group == of) {
			return name
		}
	}
	return typed
}

// words are what kubectl takes for a kind of which objects are named, and its group.
func (k Kind) words() (words []string, group string) {
	short := ""
	switch k {
	case Hosts:
		short, group = "sash", infrav1.GroupVersion.Group
	case Machines:
		short, group = "samm", infrav1.GroupVersion.Group
	case Zones:
		short, group = "sasc", infrav1.GroupVersion.Group
	case Profiles:
		short, group = "mnp", infrav1.GroupVersion.Group
	case ControlPlanes:
		short, group = "ecp", controlplanev1.GroupVersion.Group
	case CoreMachines:
		short, group = "ma", clusterv1.GroupVersion.Group
	case Fleets:
		short, group = "md", clusterv1.GroupVersion.Group
	case Clusters:
		short, group = "cl", clusterv1.GroupVersion.Group
	case Pods:
		short = "po"
	default:
		return nil, ""
	}
	return []string{string(k), strings.TrimSuffix(string(k), "s"), short}, group
}
