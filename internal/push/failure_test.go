package push

import (
	"errors"
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
)

var errPlain = errors.New("something went wrong")

func TestClassify(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		class  document.Class
		reason string
	}{
		"unreachable":       {&remote.Unreachable{Phase: remote.PhaseDial, Err: errPlain}, document.Retry, infrav1.ReasonSSHUnreachable},
		"key refused":       {&remote.AuthRefused{User: "m1"}, document.Retry, infrav1.ReasonSSHUnreachable},
		"other host key":    {&remote.HostKeyMismatch{}, document.Human, infrav1.ReasonHostKeyMismatch},
		"not pinned":        {remote.ErrNotPinned, document.Bug, ""},
		"no password":       {&remote.GrantRefused{Outcome: remote.NoPassword}, document.Wait, infrav1.ReasonMissingSudoPassword},
		"wrong password":    {&remote.GrantRefused{Outcome: remote.PasswordRejected}, document.Retry, infrav1.ReasonMissingSudoPassword},
		"locked":            {&remote.GrantRefused{Outcome: remote.AccountLocked}, document.Reboot, ""},
		"rule overridden":   {&remote.GrantRefused{Outcome: remote.RuleOverridden}, document.Human, ""},
		"grant failed":      {&remote.GrantRefused{Outcome: remote.GrantFailed}, document.Retry, ""},
		"disk full":         {&remote.ReceiveRefused{Outcome: remote.Full}, document.Human, ""},
		"cut short":         {&remote.ReceiveRefused{Outcome: remote.Short}, document.Retry, ""},
		"connection lost":   {&remote.Lost{During: "x", Err: errPlain}, document.Retry, ""},
		"not understood":    {&remote.NoReport{Reason: remote.UsageRefused}, document.Bug, ""},
		"died":              {&remote.NoReport{Reason: remote.Died}, document.Retry, ""},
		"dirty disk":        {reinstall("journal", document.NotWiped+"build x survives without a journal"), document.Reinstall, infrav1.ReasonNotWiped},
		"full disk":         {reinstall("journal", "writing the journal: no space left on device"), document.Reinstall, ""},
		"volume is gone":    {reinstall("storage", "the volume for guests is gone"), document.Reinstall, ""},
		"no step is named":  {&remote.Failed{Class: document.Reinstall}, document.Reinstall, ""},
		"document refused":  {&document.FieldError{Field: "host.user", Reason: "is root"}, document.Bug, ""},
		"anything else":     {errPlain, document.Retry, ""},
		"classified before": {&Failure{Class: document.Wait, Reason: "X", Err: errPlain}, document.Wait, "X"},
	} {
		t.Run(name, func(t *testing.T) {
			got := AsFailure(StepConverge, Classify(StepConverge, c.err))
			if got.Class != c.class || got.Reason != c.reason {
				t.Errorf("class = %s, reason = %q; want %s, %q", got.Class, got.Reason, c.class, c.reason)
			}
		})
	}
	if Classify(StepDial, nil) != nil {
		t.Error("nil is a failure")
	}
}

// reinstall is a run whose step asks for a wipe.
func reinstall(step, detail string) *remote.Failed {
	report := document.Report{Verb: document.VerbConverge, Steps: []document.StepReport{{Name: step, Outcome: document.Failed, Class: document.Reinstall, Detail: detail}}}
	return &remote.Failed{Report: report, Class: document.Reinstall}
}

// Who tells of a failure names its step and class; the report's own sentence, which does
// so too, is not in between.
func TestAFailedStepIsNamedOnce(t *testing.T) {
	report := document.Report{Verb: document.VerbConverge, Steps: []document.StepReport{{Name: "tart", Outcome: document.Failed, Class: document.Retry, Detail: "no route to host"}}}
	cause := &remote.Failed{Report: report, Class: document.Retry}
	got := AsFailure(StepConverge, Classify(StepConverge, cause))
	if got.Step != "tart" || got.Line() != "no route to host" || got.Error() != "tart: no route to host" || !errors.Is(got, cause) {
		t.Errorf("%s, line %q", got, got.Line())
	}
}

func TestRolledBackKeepsTheClass(t *testing.T) {
	failed := &Failure{Step: "agent", Class: document.Human, Err: errPlain}
	got := AsFailure(StepConverge, rolledBack(document.Report{RolledBack: "bad"}, failed))
	if got.Class != document.Human || got.Step != "agent" || !errors.Is(got, errPlain) || !errors.Is(failed.Err, errPlain) || failed.Err.Error() != errPlain.Error() {
		t.Errorf("got %+v", got)
	}
}
