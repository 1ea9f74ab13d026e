package rollout

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// An undo takes back what Macs have, and nothing else.
func TestUndoPatch(t *testing.T) {
	for name, c := range map[string]struct {
		raw    string
		change func(*infrav1.MacNodeProfileSpec)
		patch  string
		fails  bool
	}{
		"of nothing":        {raw: `{"node":{"maxVMs":2}}`, change: func(*infrav1.MacNodeProfileSpec) {}, patch: `{}`},
		"of a change":       {raw: `{"node":{"maxVMs":2}}`, change: func(s *infrav1.MacNodeProfileSpec) { s.Node.MaxVMs = 1 }, patch: `{"node":{"maxVMs":2}}`},
		"of an addition":    {raw: `{}`, change: func(*infrav1.MacNodeProfileSpec) {}, patch: `{"node":null}`},
		"of a pause":        {raw: `{"node":{"maxVMs":2}}`, change: func(s *infrav1.MacNodeProfileSpec) { s.Rollout.Paused = true }, patch: `{}`},
		"of another agent":  {raw: `{"node":{"maxVMs":2}}`, change: func(s *infrav1.MacNodeProfileSpec) { s.AgentVersion = "v0.2.0" }, patch: `{}`},
		"of an older agent": {raw: `{"agentVersion":"v0.1.0","node":{"maxVMs":2}}`, change: func(s *infrav1.MacNodeProfileSpec) { s.AgentVersion = "v0.2.0" }, patch: `{}`},
		"of a limit":        {raw: `{"maxOrdered":1,"node":{"maxVMs":2}}`, change: func(s *infrav1.MacNodeProfileSpec) { s.MaxOrdered = ptr.To[int32](3) }, patch: `{}`},
		"to no JSON":        {raw: `[`, change: func(*infrav1.MacNodeProfileSpec) {}, fails: true},
		"to nothing":        {change: func(*infrav1.MacNodeProfileSpec) {}, fails: true},
		"to no object":      {raw: `[]`, change: func(*infrav1.MacNodeProfileSpec) {}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &infrav1.MacNodeProfile{}
			p.Spec.Node.MaxVMs = 2
			c.change(&p.Spec)
			patch, err := UndoPatch(p, infrav1.ProfileRevision{Revision: "aa", Spec: runtime.RawExtension{Raw: []byte(c.raw)}})
			if c.fails != (err != nil) {
				t.Fatal(err)
			}
			if c.fails {
				return
			}
			got, err := json.Marshal(patch)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.patch {
				t.Errorf("%s, want %s", got, c.patch)
			}
		})
	}
}
