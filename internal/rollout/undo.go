package rollout

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// UndoPatch is the merge patch of a profile's spec that an undo to one of its revisions
// makes; empty: there is nothing to undo. The policy of its rollouts stays as it is, and so
// does what changes nothing on a Mac: what is waited for, and what may be ordered.
func UndoPatch(profile *infrav1.MacNodeProfile, to infrav1.ProfileRevision) (map[string]any, error) {
	current := profile.Spec.DeepCopy()
	current.Rollout = infrav1.RolloutPolicy{} // as in a history
	now, err := json.Marshal(current)
	if err != nil {
		return nil, fmt.Errorf("reading the profile's spec: %w", err)
	}
	if !json.Valid(to.Spec.Raw) { // the library panics
		return nil, fmt.Errorf("comparing with revision %.12s: it is no JSON", to.Revision)
	}
	diff, err := jsonpatch.CreateMergePatch(now, to.Spec.Raw)
	if err != nil {
		return nil, fmt.Errorf("comparing with revision %.12s: %w", to.Revision, err)
	}
	var patch map[string]any
	if err := json.Unmarshal(diff, &patch); err != nil {
		return nil, fmt.Errorf("comparing with revision %.12s: %w", to.Revision, err)
	}
	delete(patch, "agentVersion")
	delete(patch, "maxOrdered")
	return patch, nil
}
