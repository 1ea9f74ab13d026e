package main

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/remote"
)

// unreached says what a failure to log in means, and what to do about it.
func (p *preparation) unreached(err error) error {
	var mismatch *remote.HostKeyMismatch
	var refused *remote.AuthRefused
	var unreachable *remote.Unreachable
	switch {
	case errors.As(err, &mismatch):
		return &endError{code: exitHostKey, err: fmt.Errorf("%w: nothing was sent: find out whose machine answers at %s", err, p.target.Address)}
	case errors.As(err, &refused):
		return p.keyRefused(fmt.Errorf("%w", err))
	case errors.As(err, &unreachable) && unreachable.Phase == remote.PhaseAuth:
		return p.keyRefused(errors.New("the Mac ended the connection while it checked our key: " +
			"the account may be locked after wrong passwords; wait an hour or reboot the server, and do not try passwords"))
	case errors.As(err, &unreachable):
		return &endError{code: exitUnreachable, err: fmt.Errorf("%w: %s", err, hint(unreachable.Phase))}
	}
	return err
}

// hint says what usually is behind a failure to connect.
func hint(phase remote.Phase) string {
	switch phase {
	case remote.PhaseDial:
		return "is the address right, is the server on, and is Remote Login enabled?"
	case remote.PhaseHandshake:
		return "the Mac may still be starting: try again in a minute"
	}
	return "try again"
}

// keyRefused tells the ways back in, none of which is a password over SSH.
func (p *preparation) keyRefused(err error) error {
	key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(p.target.Key.PublicKey())))
	return &endError{code: exitKeyRefused, err: err, advice: []string{
		"Either let the key in by hand: over VNC, paste this line into ~/.ssh/scw_authorized_keys of user " + p.target.User + ":",
		"  " + key,
		"Or register the key with the vendor's project and reinstall the server: keys are put in at an installation only.",
	}}
}

// notGranted says what came of the password's one attempt, and what it cost.
func (p *preparation) notGranted(err error) error {
	var refused *remote.GrantRefused
	if !errors.As(err, &refused) {
		return &endError{code: exitFailed, err: fmt.Errorf(
			"%w: the password may have been tried: look whether sudo -n true works before you run this again", err)}
	}
	end := &endError{code: exitPassword}
	switch refused.Outcome {
	case remote.PasswordRejected:
		end.err = errors.New("the password is wrong: it was sent once, and cost one of the few attempts before macOS locks the account")
		end.advice = []string{
			"A locked account refuses the SSH key too, so do not guess: read the password from the vendor, or reinstall the server for a new one.",
		}
	case remote.AccountLocked:
		end.err = errors.New("the account is locked after wrong passwords: the password was sent once and not looked at")
		end.advice = []string{"Wait an hour or reboot the server, and try no password until then."}
	case remote.RuleOverridden:
		end.code = exitFailed
		end.err = errors.New("the password is right and the rule is in place, but sudo still asks: a later file in /etc/sudoers.d takes it back: remove it and run this again")
	default:
		end.code = exitFailed
		end.err = errors.New("the rule for sudo could not be installed, and nothing was changed: " +
			"the password may have cost one attempt: look at /etc/sudoers.d and the free disk space")
	}
	return end
}
