package machine

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
)

// actions are those of events, which tell events apart that are of one reason.
type actions []string

func (a *actions) Eventf(about, _ runtime.Object, _, _, action, _ string, _ ...any) {
	*a = append(*a, action+about.(*infrav1.ScalewayAppleSiliconMachine).ResourceVersion)
}

// Of events that differ in their notes alone the API keeps the first: two converges that did
// different things are two events, and one that fails in the same way again is counted; each that did something is one of its own.
func TestConvergesAreToldApart(t *testing.T) {
	var seen actions
	m := &infrav1.ScalewayAppleSiliconMachine{}
	tell := func(r document.Report) {
		m.ResourceVersion += "1" // its status is written between two
		(&machines{recorder: &seen}).tellOfConverge(m)(r)
	}
	for _, name := range []string{"power", "sshd", "power", strings.Repeat("n", 100)} {
		tell(document.Report{Steps: []document.StepReport{{Name: name, Outcome: document.Failed, Class: document.Wait}}})
	}
	tell(document.Report{Steps: []document.StepReport{{Name: "power", Outcome: document.Unchanged}}})
	for range 2 {
		tell(document.Report{Steps: []document.StepReport{{Name: "power", Outcome: document.Changed}}})
	}
	if len(seen) != 6 || seen[0] == seen[1] || seen[0] != seen[2] || len(seen[3]) > host.MostAction || seen[4] == seen[5] {
		t.Errorf("%q", seen)
	}
}

// Each converge that did something is told on the Machine, before the proof reboot and after it.
func TestEachConvergeIsTold(t *testing.T) {
	w := claimed(t)
	step := func(name string, outcome document.Outcome) document.StepReport {
		return document.StepReport{Name: name, Outcome: outcome}
	}
	w.mac.reports = []document.Report{
		{Steps: []document.StepReport{step("power", document.Changed), step("sshd", document.Changed)}, Rebooting: true, BootSession: "first"},
		{Steps: []document.StepReport{step("power", document.Unchanged), step("proof", document.Changed)}, BootSession: "second"},
	}
	w.mac.facts.BootSession = "second"
	w.settle("mac-1")
	told := slices.DeleteFunc(w.heard(), func(event string) bool { return !strings.Contains(event, " "+eventConverged+" ") })
	want := []string{"Normal Converged changed power, sshd; the Mac reboots, and another run follows", "Normal Converged changed proof"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
