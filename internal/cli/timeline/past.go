package timeline

import (
	"fmt"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
)

// Kept is how long there are events, where nobody has told the API server otherwise.
const Kept = "events are kept for about an hour"

// Past is a host or a Machine that is gone, and of which something still tells.
type Past struct {
	Kind, Namespace, Name string
	// Host still bears the claim of a Machine that is gone.
	Host *infrav1.ScalewayAppleSiliconHost
	// events is what they are, in words.
	events string
}

// PastOf is what is gone of a name that no host and no Machine of the snapshot has. A Node or
// a Pod of that name may well be there: only what is said of hosts and Machines counts, and
// only where these could be read.
func PastOf(s *snapshot.Snapshot, name string) (Past, bool) {
	past, found := goneByClaim(s, name)
	for i := range s.Events {
		of := s.Events[i].InvolvedObject
		switch kind := KindOf(of.Kind); {
		case of.Name != name:
		case kind == "host" && s.Lacks(snapshot.Hosts) == "" && !found:
			return Past{Kind: kind, Name: name, events: told}, true
		case kind == "machine" && seesMachines(s, of.Namespace) && (!found || past.Namespace == of.Namespace):
			past.Kind, past.Namespace, past.Name, past.events = kind, of.Namespace, name, told
			return past, true
		}
	}
	return past, found
}

const (
	told   = "This is what its events tell: " + Kept
	none   = "No event tells of it any more: " + Kept
	unseen = "Its events could not be read"
)

// goneByClaim is a Machine whose host still bears its claim, for days where it is stranded.
func goneByClaim(s *snapshot.Snapshot, name string) (Past, bool) {
	for i := range s.Hosts {
		if claim := claimant(&s.Hosts[i]); claim != nil && claim.Name == name && seesMachines(s, claim.Namespace) {
			past := Past{"machine", claim.Namespace, name, &s.Hosts[i], none}
			if s.Lacks(snapshot.Events) != "" {
				past.events = unseen
			}
			return past, true
		}
	}
	return Past{}, false
}

// seesMachines: that a Machine of the namespace is not in the snapshot says that it is gone.
func seesMachines(s *snapshot.Snapshot, namespace string) bool {
	return s.Lacks(snapshot.Machines) == "" && (s.Namespace == "" || s.Namespace == namespace)
}

// claimant is the Machine that a host's claim names, be it there or gone.
func claimant(h *infrav1.ScalewayAppleSiliconHost) *infrav1.ClaimReference {
	if claim := h.Spec.ClaimRef; claim != nil && claim.Namespace != host.NoNamespace {
		return claim
	}
	return nil
}

// Says is the line before what happened.
func (p Past) Says() string {
	what := "host " + p.Name
	if p.Kind == "machine" {
		what = "machine " + p.Namespace + "/" + p.Name
	}
	if p.Host != nil {
		return fmt.Sprintf("%s is gone, and the host %s still bears its claim. %s.", what, p.Host.Name, p.events)
	}
	return fmt.Sprintf("%s is gone. %s.", what, p.events)
}
