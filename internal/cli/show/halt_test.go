package show

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
)

// An undo is offered where it has something to take back.
func TestWhatToTypeOfAHalt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*infrav1.MacNodeProfile)
		verb   string
	}{
		"of a change":                   {func(p *infrav1.MacNodeProfile) { p.Spec.Node.MaxVMs++ }, "undo"},
		"of what a new manager brought": {func(p *infrav1.MacNodeProfile) { p.Spec.AgentVersion, p.Spec.MaxOrdered = "v0.2.0", ptr.To[int32](3) }, "status"},
		"of a rollout that is paused":   {func(p *infrav1.MacNodeProfile) { p.Spec.Rollout.Paused = true }, "status"},
		"that nothing was before":       {func(p *infrav1.MacNodeProfile) { p.Status.History = nil }, "status"},
	} {
		p := &clitest.Fleet().Profiles[0]
		raw, err := json.Marshal(p.Spec)
		if err != nil {
			t.Fatal(err)
		}
		p.Status.History = []infrav1.ProfileRevision{{Revision: "aaaa", Spec: runtime.RawExtension{Raw: raw}}}
		c.change(p)
		if got, want := haltCommand(p), "macfleet rollout "+c.verb+" "+p.Name+" -n "+p.Namespace; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
