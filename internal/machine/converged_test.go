package machine

import (
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
)

func TestWhatAConvergeDid(t *testing.T) {
	step := func(name string, outcome document.Outcome) document.StepReport {
		return document.StepReport{Name: name, Outcome: outcome}
	}
	failing := func(class document.Class, detail string) document.StepReport {
		return document.StepReport{Name: "tart", Outcome: document.Failed, Class: class, Detail: detail}
	}
	unchanged, power, sshd := step("lock", document.Unchanged), step("power", document.Changed), step("sshd", document.Changed)
	for name, c := range map[string]struct {
		report document.Report
		did    string
		failed bool
	}{
		"no report":           {},
		"nothing to do":       {report: document.Report{Steps: []document.StepReport{unchanged}}},
		"changes":             {report: document.Report{Steps: []document.StepReport{unchanged, power, sshd}}, did: "changed power, sshd"},
		"the proof reboot":    {report: document.Report{Steps: []document.StepReport{power}, Rebooting: true}, did: "changed power; the Mac reboots, and another run follows"},
		"a failure":           {report: document.Report{Steps: []document.StepReport{power, failing(document.Retry, "no route")}}, did: "changed power; step tart failed (retry): no route", failed: true},
		"what waits":          {report: document.Report{Steps: []document.StepReport{failing(document.Wait, "2 guests run")}}, did: "step tart failed (wait): 2 guests run"},
		"a build taken back":  {report: document.Report{Steps: []document.StepReport{failing(document.Human, "x")}, RolledBack: strings.Repeat("b", 64)}, did: "step tart failed (human): x; the Mac went back from build bbbbbbbbbbbb to the one before", failed: true},
		"a failure at length": {report: document.Report{Steps: []document.StepReport{failing(document.Bug, strings.Repeat("ä", 500))}}, did: "step tart failed (bug): " + strings.Repeat("ä", mostDetail/2), failed: true},
	} {
		if did, failed := Converged(c.report); did != c.did || failed != c.failed {
			t.Errorf("%s: %q, %t; want %q, %t", name, did, failed, c.did, c.failed)
		}
	}
	var many document.Report
	for range 64 {
		many.Steps = append(many.Steps, step(strings.Repeat("n", 60), document.Changed))
	}
	if did, _ := Converged(many); len(did) > host.MostNote {
		t.Errorf("%d bytes, and the API takes %d", len(did), host.MostNote)
	}
}
