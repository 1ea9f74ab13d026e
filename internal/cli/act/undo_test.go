package act

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
)

// changed is a profile with a history: the label went from a to b to c.
func changed(t *testing.T) *infrav1.MacNodeProfile {
	t.Helper()
	p := &infrav1.MacNodeProfile{}
	p.Namespace, p.Name, p.ResourceVersion = clitest.Namespace, clitest.Builders, "7"
	p.Spec.Rollout.Paused = true
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
			change: func(p *infrav1.MacNodeProfile) {
				p.Spec.Node.MaxVMs, p.Spec.Node.Labels = 0, map[string]infrav1.LabelValue{"team": "b"}
			}, patch: `{"spec":{"node":{"labels":{"team":"a"}}}}`,
		},
		"an unknown one": {to: "ffff", says: "remembers no other revision ffff: it has bbbbbbbbbbbb of "},
		"the one it has": {
			to: "bbbb", change: func(p *infrav1.MacNodeProfile) {
				p.Spec.Node.MaxVMs, p.Spec.Node.Labels = 0, map[string]infrav1.LabelValue{"team": "b"}
			}, says: "remembers no other revision",
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
