package converge

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/proofreboot"
	"github.com/macfleet/macfleet/internal/converge/session"
	"github.com/macfleet/macfleet/internal/converge/step"
)

func TestProofReboot(t *testing.T) {
	f := newFixture(t)
	f.desired.Mac.ProofReboot = true
	for range 2 { // a reboot that was asked for and did not happen is asked for again
		if r := f.converge(); !r.Rebooting || outcomes(r)["proof"] != document.Changed {
			t.Errorf("rebooting %v: %v", r.Rebooting, outcomes(r))
		}
		f.gone(document.BootstrapKubeconfig, document.JoinPermitFile)
	}
	f.mac.Reboot()
	if r := f.converge(); r.Rebooting || outcomes(r)["proof"] != document.Changed {
		t.Errorf("rebooting %v: %v", r.Rebooting, outcomes(r))
	}
	f.content(document.BootstrapKubeconfig)
	if r := f.converge(); r.Rebooting || r.Exit != document.ExitUnchanged {
		t.Errorf("rebooting %v: %v", r.Rebooting, outcomes(r))
	}
	if f.mac.Console.Restarts != 1 {
		t.Errorf("loginwindow was restarted %d times", f.mac.Console.Restarts)
	}
	f.mac.Reboot()
	if r := f.converge(); r.Rebooting || outcomes(r)["proof"] != document.Unchanged {
		t.Errorf("after another boot: rebooting %v: %v", r.Rebooting, outcomes(r))
	}
}

// Before the reboot nothing is called proved, nor waited for: it is after it.
func TestWhatStaysIsWatchedAfterTheReboot(t *testing.T) {
	f := newFixture(t)
	f.desired.Mac.ProofReboot = true
	began := f.mac.Interfaces().Clock.Now()
	f.converge()
	if took := f.mac.Interfaces().Clock.Now().Sub(began); took >= watchFor {
		t.Errorf("the run before the reboot waited %s", took)
	}
	if _, found := f.mac.Get(lastGoodFile); found {
		t.Error("a build is called proved before the reboot")
	}
	f.mac.Reboot()
	began = f.mac.Interfaces().Clock.Now()
	f.converge()
	if took := f.mac.Interfaces().Clock.Now().Sub(began); took < watchFor {
		t.Errorf("the run after the reboot watched for %s only", took)
	}
	f.content(lastGoodFile)
}

// What does not come back keeps the Mac from joining.
func TestProofRebootThatLosesTheSession(t *testing.T) {
	f := newFixture(t)
	f.desired.Mac.ProofReboot = true
	f.converge()
	f.mac.Console.NoLogin = true
	f.mac.Reboot()
	f.refused("session", document.Reboot, "console session")
	f.gone(document.BootstrapKubeconfig)
}

func TestProofRebootWaitsForGuests(t *testing.T) {
	f := newFixture(t)
	f.desired.Mac.ProofReboot = true
	f.mac.Fail = func(call string) error {
		if call == "write "+logRotation {
			f.mac.Console.Guests = 1 // started by hand, in the session that came up
		}
		return nil
	}
	if r := f.refused("proof", document.Wait, "waits until no guest runs"); r.Rebooting {
		t.Error("a Mac with guests reboots")
	}
}

// A Mac whose build was proved without a reboot may be a Node with guests: none is
// owed when the profile asks for one later.
func TestProofRebootThatIsWantedTooLate(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.desired.Mac.ProofReboot = true
	f.mac.Console.Guests = 1
	if r := f.converge(); r.Rebooting || outcomes(r)["proof"] != document.Unchanged {
		t.Errorf("rebooting %v: %v", r.Rebooting, outcomes(r))
	}
	if r := f.converge(); r.Rebooting || r.Exit != document.ExitUnchanged {
		t.Errorf("again: rebooting %v: %v", r.Rebooting, outcomes(r))
	}
	// Nor does it keep a bad build from being found out.
	good := f.desired.Agent.SHA256
	f.stage("second build")
	f.dying(good, 2*time.Second)
	r := f.refused("launchd", document.Retry, "runs again")
	if r.RolledBack == "" || buildOf(f.mac.Resolve(document.CurrentAgent)) != good {
		t.Errorf("rolled back %q", r.RolledBack)
	}
}

// Where macOS does not say which boot it is, no reboot would be noticed, and none is taken
// for granted.
func TestAnUnknownBootProvesNothing(t *testing.T) {
	for name, asked := range map[string]bool{"before the reboot is asked for": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.desired.Mac.ProofReboot = true
			if asked {
				f.converge()
			}
			f.mac.Boot = ""
			e := f.env()
			proof := proofreboot.Step(e, session.New(e))
			if err := proof.Act(t.Context()); err == nil || !strings.Contains(err.Error(), "does not say which boot this is") {
				t.Errorf("a reboot that nobody would notice: %v", err)
			}
			if pending, err := proofreboot.Pending(t.Context(), e); err != nil || !pending {
				t.Errorf("taken for rebooted (%v)", err)
			}
		})
	}
}

func TestProofOfAnotherEpoch(t *testing.T) {
	f := newFixture(t)
	f.mac.Put(proofreboot.File, []byte(`{"epoch":2,"bootSession":"x","provedAt":"2026-01-01T00:00:00Z"}`), step.RootAttr(0o700))
	f.desired.Mac.ProofReboot = true
	if r := f.converge(); !r.Rebooting {
		t.Error("another epoch's proof counts")
	}
}

// The report is told before the Mac goes down.
func TestRebootFollowsTheReport(t *testing.T) {
	f := newFixture(t)
	f.desired.Mac.ProofReboot = true
	r, err := Run(t.Context(), f.options(), f.desired)
	if err != nil || !r.Rebooting || f.mac.System.RebootAsked {
		t.Errorf("rebooting %v, asked %v before the report was told (%v)", r.Rebooting, f.mac.System.RebootAsked, err)
	}
	if err := reboot(t.Context(), f.options(), r, errCut); !errors.Is(err, errCut) || !f.mac.System.RebootAsked {
		t.Errorf("asked %v (%v)", f.mac.System.RebootAsked, err)
	}
	f.mac.Fail = func(string) error { return errCut }
	if err := reboot(t.Context(), f.options(), r, nil); err == nil {
		t.Error("a reboot that was refused goes unsaid")
	}
	if err := reboot(t.Context(), f.options(), document.Report{}, nil); err != nil {
		t.Error(err)
	}
}
