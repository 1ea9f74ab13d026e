package machine

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
)

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
