package host

import (
	"strings"
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// What a bootstrap mends by itself is left to it. A Mac of which nothing comes any more is given
// up once it had the time that the health check gives a Machine, and a person's wish at once.
func TestAMacThatDoesNotComeUpIsGivenUp(t *testing.T) {
	const diagnosing, exhausted = infrav1.ReasonDiagnosing, infrav1.ReasonExhausted
	now := time.Unix(1_800_000_000, 0)
	since := func(d time.Duration, b Bringup) Bringup {
		b.Pending, b.Allowed, b.ClaimedAt = true, 2*time.Hour, now.Add(-d)
		return b
	}
	late := func(reason string) Bringup { return since(3*time.Hour, Bringup{Reason: reason}) }
	held := Block{infrav1.ReasonStormGuard, "enough for an hour"}
	for name, c := range map[string]struct {
		in     Remediation
		reason string
	}{
		"a push is under way":              {Remediation{Bringup: late(infrav1.ReasonRunning)}, diagnosing},
		"attempts fail and count":          {Remediation{Bringup: late(infrav1.ReasonSSHUnreachable)}, diagnosing},
		"its own reboot":                   {Remediation{Bringup: late(infrav1.ReasonRebootingForRecovery)}, diagnosing},
		"nothing is known yet":             {Remediation{Bringup: late("")}, diagnosing},
		"no Mac comes up with the profile": {Remediation{Bringup: late(infrav1.ReasonInvalidProfile)}, diagnosing},
		"only a person mends it": {Remediation{Bringup: since(300*time.Hour, Bringup{
			Reason: infrav1.ReasonBootstrapFailed, Class: ClassHuman,
		})}, diagnosing},
		"nor without an API server":  {Remediation{Bringup: late(infrav1.ReasonEndpointUnknown)}, diagnosing},
		"the server answers no call": {Remediation{Bringup: late(infrav1.ReasonWaitingForHost)}, exhausted},
		"its password is sealed":     {Remediation{Bringup: late(infrav1.ReasonCredentialsSealed)}, exhausted},
		"or not there": {Remediation{Bringup: since(3*time.Hour, Bringup{
			Reason: infrav1.ReasonMissingSudoPassword, Class: ClassWait,
		})}, exhausted},
		"but not rejected": {Remediation{Bringup: since(3*time.Hour, Bringup{
			Reason: infrav1.ReasonMissingSudoPassword, Class: ClassRetry,
		})}, diagnosing},
		"FileVault":                     {Remediation{Bringup: late(infrav1.ReasonFileVault)}, exhausted},
		"another Mac":                   {Remediation{Bringup: late(infrav1.ReasonWrongHardware)}, exhausted},
		"another host key":              {Remediation{Bringup: late(infrav1.ReasonHostKeyMismatch)}, exhausted},
		"no tier is left":               {Remediation{Bringup: late(infrav1.ReasonBootstrapExhausted)}, exhausted},
		"the guard holds it":            {Remediation{Bringup: late(infrav1.ReasonFileVault), Block: held}, infrav1.ReasonHeld},
		"it was claimed of late":        {Remediation{Bringup: since(time.Hour, Bringup{Reason: infrav1.ReasonFileVault})}, diagnosing},
		"it was complained of just now": {Remediation{Bringup: since(3*time.Hour, Bringup{Reason: infrav1.ReasonWaitingForHost, AskedAt: now.Add(-time.Minute)})}, diagnosing},
		"it was a while ago":            {Remediation{Bringup: since(3*time.Hour, Bringup{Reason: infrav1.ReasonWaitingForHost, AskedAt: now.Add(-bringupPatience)})}, exhausted},
		"no check counts the time": {Remediation{Bringup: Bringup{
			Pending: true, Reason: infrav1.ReasonFileVault, ClaimedAt: now.Add(-300 * time.Hour),
		}}, diagnosing},
		"guests may run on it": {Remediation{Bringup: since(3*time.Hour, Bringup{
			Reason: infrav1.ReasonBootstrapExhausted, Spared: "it is taken over as it stands",
		})}, diagnosing},
		"a person wants another":        {Remediation{Bringup: since(time.Minute, Bringup{Reason: infrav1.ReasonFileVault}), Wanted: true}, exhausted},
		"though its bootstrap is fine":  {Remediation{Bringup: since(time.Minute, Bringup{Reason: infrav1.ReasonRunning}), Wanted: true}, exhausted},
		"and though it is spared":       {Remediation{Bringup: since(time.Minute, Bringup{Spared: "its Node is Ready"}), Wanted: true}, exhausted},
		"the guard holds that, too":     {Remediation{Bringup: since(time.Minute, Bringup{}), Wanted: true, Block: held}, infrav1.ReasonHeld},
		"a Machine without a Mac waits": {Remediation{Hindrance: "it waits for a Mac"}, diagnosing},
		"whatever a person wants":       {Remediation{Hindrance: "it waits for a Mac", Wanted: true}, diagnosing},
		"maintenance holds it":          {Remediation{Bringup: late(infrav1.ReasonFileVault), Hindrance: "maintenance", Wanted: true}, diagnosing},
		"nobody asks for it":            {Remediation{Bringup: late(infrav1.ReasonFileVault), Unasked: "paused"}, diagnosing},
		"given up is given up":          {Remediation{Bringup: late(infrav1.ReasonRunning), Step: exhausted}, exhausted},
	} {
		c.in.Now, c.in.Node = now, NodeMissing
		c.in.RestartTimeout, c.in.RebootTimeout = DefaultAgentRestartTimeout, DefaultRebootTimeout
		got := NextRemediation(c.in)
		if got.Reason != c.reason || got.Message == "" || (got.Step == exhausted) != (c.reason == exhausted) {
			t.Errorf("%s: got %+v, want %s", name, got, c.reason)
		}
	}
}

// Recovery climbs no tier for what a person mends: nobody is told that it will.
func TestABootstrapThatWaitsForAPersonSaysSo(t *testing.T) {
	const itself, person = "recovers by itself", "a person mends"
	for _, c := range []struct {
		reason string
		class  FailureClass
		says   string
	}{
		{infrav1.ReasonBootstrapFailed, ClassRetry, itself},
		{infrav1.ReasonBootstrapFailed, ClassReboot, itself},
		{infrav1.ReasonBootstrapFailed, ClassHuman, person},
		{infrav1.ReasonBootstrapFailed, ClassBug, person},
		{infrav1.ReasonInvalidProfile, "", person},
		{infrav1.ReasonUnknownProfile, "", person},
		{infrav1.ReasonEndpointUnknown, ClassWait, person},
		{infrav1.ReasonRunning, "", itself},
		{infrav1.ReasonRunning, ClassHuman, "named before the attempt that runs"},
	} {
		got := NextRemediation(Remediation{Node: NodeMissing, Bringup: Bringup{Pending: true, Reason: c.reason, Class: c.class}})
		if !strings.Contains(got.Message, c.says) {
			t.Errorf("%s, class %q: it says %q, want %q", c.reason, c.class, got.Message, c.says)
		}
	}
}
