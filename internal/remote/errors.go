package remote

import (
	"errors"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// Phase is how far an attempt to reach a Mac came.
type Phase string

// The phases of reaching a Mac.
const (
	// PhaseDial: no TCP connection. The Mac boots, Remote Login is off (refused),
	// or there is no way to it (timeout).
	PhaseDial Phase = "dial"
	// PhaseHandshake: the connection was made and SSH did not answer: host keys
	// are being generated, all sshd slots are taken, or it is not a Mac's sshd.
	PhaseHandshake Phase = "handshake"
	// PhaseAuth: the host key was right and the connection went while our key was
	// being checked. A locked account looks like this.
	PhaseAuth Phase = "auth"
	// PhaseSession: logged in, and no command could be started.
	PhaseSession Phase = "session"
)

// Unreachable says in which phase a Mac could not be reached.
type Unreachable struct {
	Phase Phase
	Err   error
}

func (e *Unreachable) Error() string { return fmt.Sprintf("reaching the Mac: %s: %v", e.Phase, e.Err) }
func (e *Unreachable) Unwrap() error { return e.Err }

// AuthRefused says that the Mac does not take our key for the user.
type AuthRefused struct{ User string }

func (e *AuthRefused) Error() string {
	return fmt.Sprintf("the Mac refuses our key for user %q: put the fleet's public key into ~/.ssh/scw_authorized_keys there, if it was never converged; else, or instead, have it reinstalled", e.User)
}

// HostKeyMismatch says that another host key was shown than the pinned one.
// Nothing was sent to whoever answered. Got is empty when it has no key of the
// pinned algorithm.
type HostKeyMismatch struct{ Want, Got Pin }

const mismatchAdvice = "nothing was sent: find out who answers at this address, and have the Mac reinstalled if its keys were changed"

func (e *HostKeyMismatch) Error() string {
	if e.Got == (Pin{}) {
		return fmt.Sprintf("host key mismatch: pinned %s, the host has no %s key; %s", e.Want, e.Want.Algorithm, mismatchAdvice)
	}
	return fmt.Sprintf("host key mismatch: pinned %s, the host shows %s; %s", e.Want, e.Got, mismatchAdvice)
}

// ErrNotPinned is returned for a Mac without a pin and without leave to accept
// a key at first use.
var ErrNotPinned = errors.New("no host key is pinned, and none may be accepted now")

// Lost says that the connection went while something ran. What ran may have
// ended, may go on, or may have been killed; all of it can be repeated.
type Lost struct {
	During string
	Err    error
}

func (e *Lost) Error() string { return fmt.Sprintf("%s: connection lost: %v", e.During, e.Err) }
func (e *Lost) Unwrap() error { return e.Err }

// badAnswer says that the other side did not keep to the agreement: too much
// output, or not what was asked for. It quotes none of it.
type badAnswer struct {
	During string
	Reason string
}

func (e *badAnswer) Error() string { return fmt.Sprintf("%s: bad answer: %s", e.During, e.Reason) }

// GrantOutcome is why a grant did not succeed.
type GrantOutcome string

// The ways a grant can end without root.
const (
	// PasswordRejected: the one attempt was spent and the password is wrong.
	PasswordRejected GrantOutcome = "rejected"
	// AccountLocked: the account takes no password for now. The next thing to
	// fail would be SSH itself.
	AccountLocked GrantOutcome = "locked"
	// RuleOverridden: the rule is in place and sudo still asks: a later drop-in
	// takes it back.
	RuleOverridden GrantOutcome = "overridden"
	// NoPassword: there was nothing to try; no attempt was spent.
	NoPassword GrantOutcome = "empty"
	// GrantFailed: anything else, such as a drop-in that visudo refuses.
	GrantFailed GrantOutcome = "failed"
)

// GrantRefused says why a grant did not succeed.
type GrantRefused struct{ Outcome GrantOutcome }

func (e *GrantRefused) Error() string {
	return fmt.Sprintf("granting root: %s: %s", e.Outcome, e.Outcome.advice())
}

// advice says what it means, and what to do.
func (o GrantOutcome) advice() string {
	switch o {
	case PasswordRejected:
		return "sudo does not take the vendor's password, and it is not tried again; have the Mac reinstalled, which brings another"
	case AccountLocked:
		return "the account takes no password for now, and soon no key; leave it alone for a while, or reboot the Mac"
	case RuleOverridden:
		return "our rule is in place and a later one takes it back; look at the last files of /etc/sudoers.d on the Mac"
	case NoPassword:
		return "the vendor shows no password; wait until it shows one, or run `macfleet host prepare`"
	}
	return "sudo or visudo refused for another reason; run `sudo visudo -c` on the Mac"
}

// ReceiveOutcome is why a build did not arrive.
type ReceiveOutcome string

// The ways an upload can end without a staged build.
const (
	// Short: fewer bytes arrived than were announced; the next attempt goes on
	// from there.
	Short ReceiveOutcome = "short"
	// Corrupt: the bytes have another SHA-256. They were thrown away.
	Corrupt ReceiveOutcome = "corrupt"
	// Full: the Mac could not write it all.
	Full ReceiveOutcome = "full"
	// ReceiveFailed: anything else.
	ReceiveFailed ReceiveOutcome = "failed"
)

// ReceiveRefused says why a build did not arrive.
type ReceiveRefused struct{ Outcome ReceiveOutcome }

func (e *ReceiveRefused) Error() string {
	return fmt.Sprintf("receiving the build: %s: %s", e.Outcome, e.Outcome.advice())
}

// advice says what it means, and what to do.
func (o ReceiveOutcome) advice() string {
	switch o {
	case Short:
		return "not all of it arrived; the next attempt goes on from there"
	case Corrupt:
		return "what arrived is not what was sent, and was thrown away; the next attempt sends it again"
	case Full:
		return "the Mac could not write it all; make room on its disk, or have it reinstalled"
	}
	return "the Mac could not take it; look at ~/.macfleet/staging there"
}

// Failed is a run of the agent that ended in a report of failure.
type Failed struct {
	Report document.Report
	Class  document.Class
}

func (e *Failed) Error() string {
	if s, ok := e.Report.FailedStep(); ok {
		return fmt.Sprintf("%s: step %s failed (%s): %s", e.Report.Verb, s.Name, e.Class, s.Detail)
	}
	return fmt.Sprintf("%s failed (%s)", e.Report.Verb, e.Class)
}

// NoReportReason is why there is no report.
type NoReportReason string

// The ways a run of the agent ends without a report.
const (
	// NotInstalled: there is no such build on the Mac.
	NotInstalled NoReportReason = "the build is not on the Mac"
	// SudoRefused: sudo asks for a password again.
	SudoRefused NoReportReason = "sudo refuses without a password"
	// UsageRefused: the agent does not understand the document.
	UsageRefused NoReportReason = "the agent does not understand the document"
	// Died: it ended before it could report.
	Died NoReportReason = "it ended without a report"
)

// NoReport is a run of the agent that ended without a report.
type NoReport struct {
	Verb   string
	Reason NoReportReason
	// Exit is the exit code, or -1 when a signal ended it.
	Exit int
}

func (e *NoReport) Error() string { return fmt.Sprintf("%s: %s (exit %d)", e.Verb, e.Reason, e.Exit) }
