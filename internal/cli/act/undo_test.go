package act

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
)

// changed is a profile with a history: the label went from a to b to c.
func changed(t *testing.T) *infrav1.MacNodeProfile {
	t.Helper()
	p := &infrav1.MacNodeProfile{}
	p.Namespace, p.Name, p.ResourceVersion = clitest.Namespace, clitest.Builders, "7"
	p.Spec.Rollout.Paused, p.Status.Revision = true, strings.Repeat("c", 64)
	for _, value := range []string{"a", "b", "c"} {
		p.Spec.Node.Labels = map[string]infrav1.LabelValue{"team": infrav1.LabelValue(value)}
		if value == "c" {
			p.Spec.Node.MaxVMs = 1
			break // never was on all Macs
		}
		spec := p.Spec.DeepCopy()
		spec.Rollout = infrav1.RolloutPolicy{}
		raw, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		of := infrav1.ProfileRevision{Revision: strings.Repeat(value, 64), RolledOutAt: clitest.Ago(time.Hour), Spec: runtime.RawExtension{Raw: raw}}
		p.Status.History = append([]infrav1.ProfileRevision{of}, p.Status.History...)
	}
	return p
}

// asked makes the profile ask for what it did with that label.
func asked(p *infrav1.MacNodeProfile, label infrav1.LabelValue) {
	p.Spec.Node.MaxVMs, p.Spec.Node.Labels = 0, map[string]infrav1.LabelValue{"team": label}
}

func TestUndo(t *testing.T) {
	for name, c := range map[string]struct {
		to     string
		change func(*infrav1.MacNodeProfile)
		// patch is what is sent, or says is why nothing is.
		patch, says string
	}{
		"the last that all had": {patch: `{"spec":{"node":{"labels":{"team":"b"},"maxVMs":null}}}`},
		"one before":            {to: "aaaa", patch: `{"spec":{"node":{"labels":{"team":"a"},"maxVMs":null}}}`},
		"when all have the newest": {
			change: func(p *infrav1.MacNodeProfile) { asked(p, "b"); p.Status.Revision = strings.Repeat("b", 64) }, patch: `{"spec":{"node":{"labels":{"team":"a"}}}}`,
		},
		"an unknown one": {to: "ffff", says: "remembers no other revision ffff: it has bbbbbbbbbbbb of "},
		"the one it has": {
			to: "bbbb", change: func(p *infrav1.MacNodeProfile) { asked(p, "b"); p.Status.Revision = strings.Repeat("b", 64) }, says: "remembers no other revision",
		},
		"of what a new manager brought": {
			change: func(p *infrav1.MacNodeProfile) {
				asked(p, "b")
				p.Spec.AgentVersion, p.Spec.MaxOrdered = "v0.2.0", ptr.To[int32](3)
			}, says: "asks for what it did at revision bbbbbbbbbbbb: what differs is not the profile's, as the agent, which helm rollback takes back",
		},
		"of what a new manager brought, by name": {
			to: "bbbb", change: func(p *infrav1.MacNodeProfile) { asked(p, "b") }, says: "what differs is not the profile's",
		},
		"without a history": {change: func(p *infrav1.MacNodeProfile) { p.Status.History = nil }, says: "nothing was yet"},
	} {
		t.Run(name, func(t *testing.T) {
			p := changed(t)
			if c.change != nil {
				c.change(p)
			}
			plan, err := Undo{To: c.to}.Plan(p)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(plan.Steps[0].Patch)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.patch, string(got)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if said := strings.Join(plan.Says, " "); !strings.Contains(said, "changes node of its spec") || !strings.Contains(said, "is paused") {
				t.Errorf("says %q", said)
			}
		})
	}
}
