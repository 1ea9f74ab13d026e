package host

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func TestNextRemediation(t *testing.T) {
	const restart, reboot, exhausted = infrav1.ReasonRestartingAgent, infrav1.ReasonRebooting, infrav1.ReasonExhausted
	now := time.Unix(1_800_000_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	held := Block{infrav1.ReasonStormGuard, "enough for an hour"}
	for name, c := range map[string]struct {
		in           Remediation
		step, reason string
		until        time.Time
	}{
		"begins with the agent":              {Remediation{}, restart, restart, now.Add(3 * time.Minute)},
		"the guard holds no restart":         {Remediation{Block: held}, restart, restart, now.Add(3 * time.Minute)},
		"the agent is given its time":        {Remediation{Step: restart, Since: ago(2 * time.Minute)}, restart, restart, now.Add(time.Minute)},
		"then a reboot":                      {Remediation{Step: restart, Since: ago(3 * time.Minute)}, reboot, reboot, now.Add(15 * time.Minute)},
		"also when no restart was made":      {Remediation{Step: restart, Since: ago(time.Hour)}, reboot, reboot, now.Add(15 * time.Minute)},
		"the guard holds a reboot":           {Remediation{Step: restart, Since: ago(3 * time.Minute), Block: held}, restart, infrav1.ReasonHeld, time.Time{}},
		"a reboot's time starts when taken":  {Remediation{Step: reboot, Since: ago(time.Hour), RebootedAt: ago(time.Minute)}, reboot, reboot, now.Add(14 * time.Minute)},
		"a reboot nobody took ends, too":     {Remediation{Step: reboot, Since: ago(15 * time.Minute)}, exhausted, exhausted, time.Time{}},
		"the guard holds the giving up":      {Remediation{Step: reboot, Since: ago(15 * time.Minute), Block: held}, reboot, infrav1.ReasonHeld, time.Time{}},
		"given up is given up":               {Remediation{Step: exhausted, Since: ago(time.Hour), Block: held}, exhausted, exhausted, time.Time{}},
		"no reboot for a Node that is gone":  {Remediation{Step: restart, Since: ago(3 * time.Minute), Node: NodeMissing}, exhausted, exhausted, time.Time{}},
		"a missing Node is waited for":       {Remediation{Step: reboot, Since: ago(time.Minute), Node: NodeMissing}, reboot, reboot, now.Add(14 * time.Minute)},
		"Ready before anything":              {Remediation{Node: NodeReady}, "", infrav1.ReasonRecovered, time.Time{}},
		"Ready at the last moment":           {Remediation{Step: reboot, Since: ago(time.Hour), Node: NodeReady}, "", infrav1.ReasonRecovered, time.Time{}},
		"Ready after it was given up":        {Remediation{Step: exhausted, Node: NodeReady}, "", infrav1.ReasonRecovered, time.Time{}},
		"Ready, but a person wants another":  {Remediation{Step: reboot, Since: ago(time.Hour), Node: NodeReady, Wanted: true}, exhausted, exhausted, time.Time{}},
		"a person's wish needs no step":      {Remediation{Node: NodeReady, Wanted: true}, exhausted, exhausted, time.Time{}},
		"nor waits for one":                  {Remediation{Step: restart, Since: now, Node: NodeReady, Wanted: true}, exhausted, exhausted, time.Time{}},
		"but for the guard":                  {Remediation{Node: NodeReady, Wanted: true, Block: held}, "", infrav1.ReasonHeld, time.Time{}},
		"wanted, and not well":               {Remediation{Wanted: true}, restart, restart, now.Add(3 * time.Minute)},
		"hindered":                           {Remediation{Step: restart, Since: ago(time.Hour), Hindrance: "maintenance"}, restart, infrav1.ReasonDiagnosing, time.Time{}},
		"goes on with its time anew":         {Remediation{Step: restart}, restart, restart, now.Add(3 * time.Minute)},
		"a server that is gone needs no act": {Remediation{Gone: true, Block: held}, exhausted, exhausted, time.Time{}},
		"a host that was lost needs no act":  {Remediation{Lost: true, Block: held}, exhausted, exhausted, time.Time{}},
		"no restart over SSH that fails":     {Remediation{Unreachable: true}, reboot, reboot, now.Add(15 * time.Minute)},
		"nor the rest of its time":           {Remediation{Step: restart, Since: ago(time.Second), Unreachable: true}, reboot, reboot, now.Add(15 * time.Minute)},
		"a restart that was made has it":     {Remediation{Step: restart, Since: ago(time.Second), Unreachable: true, Restarted: true}, restart, restart, now.Add(3*time.Minute - time.Second)},
		"a missing Node has it, too":         {Remediation{Step: restart, Since: ago(time.Second), Unreachable: true, Node: NodeMissing}, restart, restart, now.Add(3*time.Minute - time.Second)},
		"and what the guard holds":           {Remediation{Step: restart, Since: ago(time.Second), Unreachable: true, Block: held}, restart, restart, now.Add(3*time.Minute - time.Second)},
		"no health check asks for it":        {Remediation{Step: reboot, Since: ago(time.Hour), Unasked: "deleted"}, "", infrav1.ReasonDiagnosing, time.Time{}},
		"nor for giving it up":               {Remediation{Step: exhausted, Since: ago(time.Hour), Gone: true, Unasked: "deleted"}, "", infrav1.ReasonDiagnosing, time.Time{}},
		"but the Node is Ready":              {Remediation{Step: reboot, Node: NodeReady, Unasked: "deleted"}, "", infrav1.ReasonRecovered, time.Time{}},
		"hindered before gone":               {Remediation{Gone: true, Hindrance: "paused"}, "", infrav1.ReasonDiagnosing, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Now, c.in.RestartTimeout, c.in.RebootTimeout = now, DefaultAgentRestartTimeout, DefaultRebootTimeout
			got := NextRemediation(c.in)
			if got.Step != c.step || got.Reason != c.reason || !got.Until.Equal(c.until) || got.Message == "" {
				t.Errorf("got %+v, want step %q with reason %s until %s", got, c.step, c.reason, c.until)
			}
		})
	}
}

// A Machine that its owner leaves to whoever deletes it is deleted where it may be given up
// now, however long ago it was.
func TestWhatIsGivenUpIsDeletedWhereItsOwnerWaitsForThat(t *testing.T) {
	held := Block{infrav1.ReasonStormGuard, "enough for an hour"}
	for name, c := range map[string]struct {
		in      Remediation
		reason  string
		deletes bool
	}{
		"its owner replaces it":            {Remediation{Block: held, TooMany: true}, infrav1.ReasonExhausted, false},
		"its owner does not":               {Remediation{OnDelete: true}, infrav1.ReasonExhausted, true},
		"the guard holds it":               {Remediation{OnDelete: true, Block: held}, infrav1.ReasonHeld, false},
		"but none that wipes nothing":      {Remediation{OnDelete: true, Block: held, Gone: true}, infrav1.ReasonExhausted, true},
		"nor that of a lost host":          {Remediation{OnDelete: true, Block: held, Lost: true}, infrav1.ReasonExhausted, true},
		"too many are unhealthy":           {Remediation{OnDelete: true, TooMany: true}, infrav1.ReasonDiagnosing, false},
		"maintenance":                      {Remediation{OnDelete: true, Hindrance: "maintenance"}, infrav1.ReasonDiagnosing, false},
		"no health check asks for it":      {Remediation{OnDelete: true, Unasked: "paused"}, infrav1.ReasonDiagnosing, false},
		"the Node is Ready":                {Remediation{OnDelete: true, Node: NodeReady}, infrav1.ReasonRecovered, false},
		"a person wants another, though":   {Remediation{OnDelete: true, Node: NodeReady, Wanted: true}, infrav1.ReasonExhausted, true},
		"it comes up again":                {Remediation{OnDelete: true, Bringup: Bringup{Pending: true, Reason: infrav1.ReasonRunning}}, infrav1.ReasonDiagnosing, false},
		"its Node is Ready meanwhile":      {Remediation{OnDelete: true, Bringup: Bringup{Pending: true, Reason: infrav1.ReasonFileVault, Spared: "its Node is Ready"}}, infrav1.ReasonDiagnosing, false},
		"nothing comes of it still":        {Remediation{OnDelete: true, Bringup: Bringup{Pending: true, Reason: infrav1.ReasonFileVault, Allowed: time.Hour}}, infrav1.ReasonExhausted, true},
		"not before it was given up":       {Remediation{OnDelete: true, Step: infrav1.ReasonRebooting, Since: time.Unix(0, 0)}, infrav1.ReasonExhausted, false},
		"nor at the step before the guard": {Remediation{OnDelete: true, Step: infrav1.ReasonRebooting, Since: time.Unix(0, 0), Block: held}, infrav1.ReasonHeld, false},
	} {
		if c.in.Step == "" {
			c.in.Step = infrav1.ReasonExhausted
		}
		c.in.Now = time.Unix(1_800_000_000, 0)
		got := NextRemediation(c.in)
		if got.Reason != c.reason || got.Delete != c.deletes || got.Message == "" {
			t.Errorf("%s: got %+v, want reason %s, deleted: %t", name, got, c.reason, c.deletes)
		}
		if waits := got.Reason == infrav1.ReasonHeld || (c.in.TooMany || c.in.Hindrance != "" || got.Reason == infrav1.ReasonDiagnosing && c.in.Bringup.Pending) && c.in.OnDelete; waits && got.Step != c.in.Step {
			t.Errorf("%s: it forgets how far it is: %+v", name, got)
		}
	}
}

// Who reads of a reboot sees what failed before it, and whether the agent was restarted.
func TestWhyAMacIsRebooted(t *testing.T) {
	const unready = "its Node's condition Ready is False (KubeletNotReady: the VMs cannot be listed)"
	for why, r := range map[string]Remediation{
		"neither the Node is heard of nor does SSH reach the Mac, so that its agent cannot be restarted": {Unreachable: true, Unready: unready},
		"the agent was restarted, and " + unready:                                                        {Unreachable: true, Restarted: true, Unready: unready},
		"the agent was restarted, and its Node is not Ready yet":                                         {Restarted: true},
		"the agent was restarted, and the Node's condition DiskBroken is True":                           {Restarted: true, Complaint: "the Node's condition DiskBroken is True", Unready: unready},
		unready:                 {Unready: unready},
		"its Node is not Ready": {},
	} {
		r.Now = time.Unix(1_800_000_000, 0)
		r.Step, r.Since, r.RebootTimeout = infrav1.ReasonRebooting, r.Now, time.Minute
		if got := NextRemediation(r); got.Message != "a reboot is asked for: "+why || got.Failure != why {
			t.Errorf("%q: %+v", why, got)
		}
	}
}

// Who reads of a step that a health check asks for, of a Node that is Ready, sees what of.
func TestAComplaintIsNamed(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	const complaint = "the Node's condition DiskBroken is True"
	for name, r := range map[string]Remediation{
		"a restart to come":   {},
		"a restart":           {Step: infrav1.ReasonRestartingAgent, Since: now, Restarted: true},
		"a reboot":            {Step: infrav1.ReasonRebooting, Since: now, RebootedAt: now},
		"after all steps":     {Step: infrav1.ReasonExhausted, Since: now},
		"before the last one": {Step: infrav1.ReasonRebooting, Since: now.Add(-time.Hour)},
	} {
		r.Now, r.RestartTimeout, r.RebootTimeout, r.Complaint = now, time.Minute, time.Minute, complaint
		if got := NextRemediation(r); !strings.Contains(got.Message, complaint) {
			t.Errorf("%s: %q", name, got.Message)
		}
	}
}

func TestRemediationLeavesStepsOut(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		restart, reboot time.Duration
		held            bool
		want            string
	}{
		"no restart":         {0, time.Hour, false, infrav1.ReasonRebooting},
		"no restart, held":   {0, time.Hour, true, infrav1.ReasonHeld},
		"neither":            {0, 0, false, infrav1.ReasonExhausted},
		"neither, but held":  {0, 0, true, infrav1.ReasonHeld},
		"no reboot, at once": {time.Minute, 0, false, infrav1.ReasonRestartingAgent},
	} {
		unreachable := Remediation{RestartTimeout: c.restart, RebootTimeout: c.reboot, Now: now, Unreachable: true}
		if got := NextRemediation(unreachable); c.reboot == 0 && c.restart > 0 && got.Reason != infrav1.ReasonRestartingAgent {
			t.Errorf("%s, not reached: %+v", name, got)
		}
		in := Remediation{RestartTimeout: c.restart, RebootTimeout: c.reboot, Now: now}
		if c.held {
			in.Block.Reason = infrav1.ReasonStormGuard
		}
		if got := NextRemediation(in); got.Reason != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
	in := Remediation{Step: infrav1.ReasonRestartingAgent, Since: now.Add(-time.Hour), RestartTimeout: time.Minute, Now: now}
	if got := NextRemediation(in); got.Step != infrav1.ReasonExhausted {
		t.Errorf("after the restart, without a reboot: %+v", got)
	}
}

// A remediation that core leaves behind has all its steps before it: one that was at its
// last when the Node came back would else reboot or wipe at the next blink.
func TestWhatEndsTheLadderForgetsItsStep(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, end := range map[string]func(*Remediation){
		"the Node is Ready":     func(r *Remediation) { r.Node = NodeReady },
		"the health check goes": func(r *Remediation) { r.Unasked = "no health check selects the Machine" },
	} {
		in := Remediation{Step: infrav1.ReasonRebooting, Since: now.Add(-time.Hour), RestartTimeout: time.Minute, RebootTimeout: time.Minute, Now: now}
		again := in
		end(&in)
		ended := NextRemediation(in)
		again.Step, again.Since = ended.Step, ended.Since
		if got := NextRemediation(again); !ended.Since.IsZero() || got.Step != infrav1.ReasonRestartingAgent || !got.Since.Equal(now) {
			t.Errorf("%s: it ends with %+v, and goes on with %+v", name, ended, got)
		}
	}
}

// A hindrance ends with the whole time of the step that it interrupted.
func TestHindranceStopsTheClock(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	in := Remediation{Step: infrav1.ReasonRebooting, Since: now.Add(-time.Hour), RebootTimeout: time.Minute, Hindrance: "maintenance", Now: now}
	stopped := NextRemediation(in)
	if !stopped.Since.IsZero() {
		t.Fatalf("the time goes on: %+v", stopped)
	}
	in.Hindrance, in.Since = "", stopped.Since
	if got := NextRemediation(in); got.Step != infrav1.ReasonRebooting || !got.Since.Equal(now) {
		t.Errorf("got %+v, want the reboot's time anew", got)
	}
}

func TestWithoutSelf(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a, b := infrav1.ScalewayAppleSiliconHost{}, infrav1.ScalewayAppleSiliconHost{}
	a.Name, b.Name = "a", "b"
	RecordDisruption(&a, now)
	RecordDisruption(&b, now)
	hosts := []infrav1.ScalewayAppleSiliconHost{a, b}
	var disturbed []string
	for _, h := range WithoutSelf(hosts, "a") {
		if h.Spec.Record.DisturbedAt != nil {
			disturbed = append(disturbed, h.Name)
		}
	}
	if diff := cmp.Diff([]string{"b"}, disturbed); diff != "" {
		t.Error(diff)
	}
	if hosts[0].Spec.Record.DisturbedAt == nil {
		t.Error("the list it was given is changed")
	}
}
