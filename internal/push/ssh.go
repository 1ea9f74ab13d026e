package push

import (
	"context"
	"errors"
	"strings"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
)

// SSH dials Macs over SSH.
type SSH struct{}

// Dial implements Dialer.
func (SSH) Dial(ctx context.Context, target Target) (Mac, error) {
	t := remote.Target{Address: target.Address, Addresses: target.Addresses, Port: target.Port, User: target.User, Key: target.Key, OtherKeys: target.OtherKeys}
	if target.Pin != nil {
		t.Pin = remote.Pin{Algorithm: target.Pin.Algorithm, SHA256: target.Pin.SHA256}
	} else if target.FirstUse != nil {
		t.FirstUse = func(ctx context.Context, shown remote.Pin) error { return target.FirstUse(ctx, hostKey(shown)) }
	}
	session, err := remote.Dial(ctx, t)
	if err != nil {
		return nil, Classify(StepDial, err)
	}
	return sshMac{session}, nil
}

func hostKey(pin remote.Pin) infrav1.HostKey {
	return infrav1.HostKey{Algorithm: pin.Algorithm, SHA256: pin.SHA256}
}

// sshMac is a Mac over one SSH connection.
type sshMac struct{ session *remote.Session }

func (m sshMac) HostKey() infrav1.HostKey { return hostKey(m.session.HostKey()) }

func (m sshMac) Probe(ctx context.Context) (Facts, error) {
	facts, err := m.session.Probe(ctx)
	return Facts{
		Sudo: facts.Sudo || facts.SudoAgent, Installed: facts.CurrentAgent, Serial: facts.Serial, PlatformUUID: facts.PlatformUUID, BootSession: facts.BootSession,
		FileVault: facts.FileVault == remote.On, VirtualMachine: facts.VirtualMachine, Client: facts.Client,
	}, Classify(StepProbe, err)
}

func (m sshMac) Grant(ctx context.Context, password cloud.Password) error {
	return Classify(StepGrant, m.session.Grant(ctx, password))
}

func (m sshMac) Receive(ctx context.Context, agent Agent) error {
	_, err := m.session.Receive(ctx, agent.Build)
	return Classify(StepReceive, err)
}

func (m sshMac) Converge(ctx context.Context, desired document.Desired, signer *document.Signer) (document.Report, error) {
	report, err := m.session.Converge(ctx, desired.Agent.SHA256, desired, signer)
	return report, Classify(StepConverge, err)
}

func (m sshMac) Plan(ctx context.Context, desired document.Desired) (document.Report, error) {
	report, err := m.session.Plan(ctx, desired)
	return report, Classify(StepConverge, err)
}

func (m sshMac) Leave(ctx context.Context, signer *document.Signer) error {
	_, err := m.session.Leave(ctx, signer)
	return err
}

func (m sshMac) Close() error { return m.session.Close() }

// Classify says what a failure on the way to a Mac asks for, by its type.
func Classify(step string, err error) error {
	if err == nil {
		return nil
	}
	failure := &Failure{Step: step, Class: document.Retry, Err: err}
	if own, ok := errors.AsType[*Failure](err); ok {
		return own
	}
	if _, ok := errors.AsType[*remote.HostKeyMismatch](err); ok {
		failure.Class, failure.Reason = document.Human, infrav1.ReasonHostKeyMismatch
	}
	if _, ok := errors.AsType[*remote.Unreachable](err); ok {
		failure.Reason = infrav1.ReasonSSHUnreachable
	}
	if _, ok := errors.AsType[*remote.AuthRefused](err); ok {
		failure.Reason = infrav1.ReasonSSHUnreachable
	}
	if _, ok := errors.AsType[*document.FieldError](err); ok || errors.Is(err, remote.ErrNotPinned) {
		failure.Class = document.Bug
	}
	if refused, ok := errors.AsType[*remote.GrantRefused](err); ok {
		failure.Class, failure.Reason = grantClass(refused.Outcome)
	}
	if refused, ok := errors.AsType[*remote.ReceiveRefused](err); ok && refused.Outcome == remote.Full {
		failure.Class = document.Human
	}
	if silent, ok := errors.AsType[*remote.NoReport](err); ok && silent.Reason == remote.UsageRefused {
		failure.Class = document.Bug
	}
	if failed, ok := errors.AsType[*remote.Failed](err); ok {
		failure.Class = failed.Class
		if at, known := failed.Report.FailedStep(); known {
			failure.Step, failure.Err = at.Name, &stepFailure{detail: at.Detail, cause: err}
			// A full disk and a volume that is gone ask for a wipe, too, and nobody's data
			// survived one.
			if failed.Class == document.Reinstall && strings.HasPrefix(at.Detail, document.NotWiped) {
				failure.Reason = infrav1.ReasonNotWiped
			}
		}
	}
	return failure
}

// grantClass: a rejected password had its one attempt, and only another one or a
// wipe helps, so it counts against the host; one that is not there is waited for; a
// locked account wants a reboot; a rule that is taken back needs a person.
func grantClass(outcome remote.GrantOutcome) (document.Class, string) {
	switch outcome {
	case remote.PasswordRejected:
		return document.Retry, infrav1.ReasonMissingSudoPassword
	case remote.NoPassword:
		return document.Wait, infrav1.ReasonMissingSudoPassword
	case remote.AccountLocked:
		return document.Reboot, ""
	case remote.RuleOverridden:
		return document.Human, ""
	}
	return document.Retry, ""
}

// stepFailure is a failed step of the Mac's in the report's own words: which step it
// was, and of which class, the Failure around it says.
type stepFailure struct {
	detail string
	cause  error
}

// Error is the step's detail.
func (e *stepFailure) Error() string { return e.detail }

// Unwrap returns the failure of the whole run.
func (e *stepFailure) Unwrap() error { return e.cause }
