package act

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/rollout"
)

// Undo makes a profile what it was when all of its Macs had it last.
type Undo struct {
	// To is the beginning of a revision; empty: the last that differs from what is asked
	// for now.
	To string
}

// Plan is for a profile.
func (a Undo) Plan(profile *infrav1.MacNodeProfile) (Plan, error) {
	name := profile.Namespace + "/" + profile.Name
	to, patch, err := a.find(profile)
	if err != nil {
		return Plan{}, err
	}
	if to == nil {
		which := "no revision but the one that it asks for"
		if a.To != "" {
			which = "no other revision " + a.To
		}
		return Plan{}, fmt.Errorf("profile %s remembers %s: %s", name, which, remembered(profile))
	}
	var p Plan
	p.say("profile %s asks again for what it did at revision %.12s, which all of its Macs had at %s; their agent stays this manager's", name, to.Revision, to.RolledOutAt.UTC().Format("2006-01-02T15:04:05Z"))
	p.say("it changes %s of its spec; its Macs take that in turns, as any change", strings.Join(slices.Sorted(maps.Keys(patch)), ", "))
	if profile.Labels["app.kubernetes.io/managed-by"] == "Helm" {
		p.say("Helm wrote it: change its values, too, or the next helm upgrade fails with a conflict, and writes the old ones again with --force-conflicts")
	}
	if profile.Spec.Rollout.Paused {
		p.say("its rollout is paused: nothing begins before it is resumed")
	}
	p.patch(profile, spec(patch))
	return p, nil
}

// find is the revision to go back to, and what that changes; nil: there is none.
func (a Undo) find(profile *infrav1.MacNodeProfile) (*infrav1.ProfileRevision, map[string]any, error) {
	for i := range profile.Status.History {
		r := &profile.Status.History[i]
		if !strings.HasPrefix(r.Revision, a.To) {
			continue
		}
		patch, err := rollout.UndoPatch(profile, *r)
		if err != nil {
			return nil, nil, err
		}
		if len(patch) > 0 {
			return r, patch, nil
		}
		if profile.Status.Revision != "" && r.Revision != profile.Status.Revision {
			return nil, nil, fmt.Errorf("profile %s/%s asks for what it did at revision %.12s: what differs is not the profile's, as the agent, which helm rollback takes back; --to-revision names an older one: %s",
				profile.Namespace, profile.Name, r.Revision, remembered(profile))
		}
	}
	return nil, nil, nil
}

// remembered lists what a profile remembers, for who asked for something else.
func remembered(profile *infrav1.MacNodeProfile) string {
	var all []string
	for _, r := range profile.Status.History {
		all = append(all, fmt.Sprintf("%.12s of %s", r.Revision, r.RolledOutAt.UTC().Format("2006-01-02T15:04:05Z")))
	}
	if len(all) == 0 {
		return "it remembers what was on all of its Macs, and nothing was yet"
	}
	return "it has " + strings.Join(all, ", ")
}
