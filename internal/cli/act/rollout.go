package act

import (
	"fmt"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/show"
)

// Pause pauses a rollout, or lets it go on.
type Pause struct{ Resume bool }

// Plan is for a profile.
func (a Pause) Plan(profile *infrav1.MacNodeProfile) (Plan, error) {
	name := profile.Namespace + "/" + profile.Name
	var p Plan
	switch paused := profile.Spec.Rollout.Paused; {
	case a.Resume && !paused:
		return Plan{}, fmt.Errorf("the rollout of %s is not paused", name)
	case !a.Resume && paused:
		return Plan{}, fmt.Errorf("the rollout of %s is paused already", name)
	case a.Resume:
		p.say("the rollout of %s goes on: %d of %s at the revision", name, profile.Status.Updated, show.Count(int(profile.Status.Machines), "Mac"))
	default:
		p.say("the rollout of %s pauses: no turn begins, no Mac is mended, and labels and taints of its Nodes stay; what has begun ends", name)
	}
	p.patch(profile, spec(map[string]any{"rollout": map[string]any{"paused": !a.Resume}}))
	return p, nil
}
