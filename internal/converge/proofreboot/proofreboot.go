// Package proofreboot has a Mac reboot once before it joins, to see that everything
// comes back by itself.
package proofreboot

import (
	"context"
	"time"

	"github.com/macfleet/macfleet/internal/converge/builds"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/session"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// note is what is remembered of the proof reboot. One that cannot be read is as good as
// none: it proves nothing.
var note = step.Note[rebootNote]{Path: File, What: File}

// File is where the note is.
const File = document.StateDir + "/proof.json"

// rebootNote is what is remembered of the proof reboot.
type rebootNote struct {
	// Epoch it belongs to.
	Epoch int64 `json:"epoch"`
	// BootSession that the reboot was asked in; another one is the reboot.
	BootSession string    `json:"bootSession"`
	AskedAt     time.Time `json:"askedAt"`
	// ProvedAt is when everything had come back.
	ProvedAt time.Time `json:"provedAt,omitzero"`
}

// state is how far the proof reboot of this epoch is.
type state string

const (
	// unwanted: the profile asks for none.
	unwanted state = "unwanted"
	// pending: the Mac was not rebooted yet.
	pending state = "pending"
	// rebooted: it was, and what came back is not recorded yet.
	rebooted state = "rebooted"
	proved   state = "proved"
)

func stateOf(ctx context.Context, e *step.Env) (state, error) {
	if !e.Desired.Mac.ProofReboot || e.Desired.Host.TakeOver {
		return unwanted, nil // guests may run on a Mac that is taken over
	}
	last, err := note.Read(e.Mac.Files)
	if err != nil {
		return "", err
	}
	asked := last.Epoch == e.Desired.Host.Epoch
	if asked && !last.ProvedAt.IsZero() {
		return proved, nil
	}
	boot, err := step.BootSession(ctx, e.Mac)
	if err != nil {
		return "", err
	}
	if asked && boot != last.BootSession && boot != "" {
		return rebooted, nil
	}
	// A build is called good after the reboot, or when none was wanted. Then the
	// Mac may be a Node with guests, and it is too late for one.
	if good, err := (builds.Store{Env: e}).LastGood(); err != nil || good.Build != "" {
		return proved, err
	}
	return pending, nil
}

// Pending reports whether the Mac must still reboot before it may join.
func Pending(ctx context.Context, e *step.Env) (bool, error) {
	s, err := stateOf(ctx, e)
	return s == pending, err
}

// reboot is the step. The session's password may be refused as late as in it.
type reboot struct {
	*step.Env
	console *session.Console
}

// Step reboots the Mac once an install epoch, before it joins, and records that
// all earlier steps held afterwards: they looked again in the run that gets here.
// The reboot itself is the caller's, after the report was told.
func Step(e *step.Env, console *session.Console) step.Step {
	r := reboot{e, console}
	return step.Step{
		Name:  "proof",
		About: "Reboots the Mac once after its installation, when the profile asks for it before the Mac joins, to see that the session, the volume, the firewall and the jobs come back by themselves. Records it in `" + File + "`.",
		Undo:  "There is nothing to undo.",
		Check: func(ctx context.Context) ([]string, error) {
			s, err := stateOf(ctx, r.Env)
			switch {
			case err != nil:
				return nil, err
			case s == pending:
				return []string{"the Mac was not rebooted since it was installed"}, nil
			case s == rebooted:
				return []string{"what came back after the reboot is not recorded"}, nil
			case r.console.Restarted():
				return []string{"the session is new, its password may yet be sealed"}, nil
			}
			return nil, nil
		},
		Act:   r.proveByReboot,
		Prove: step.Unproved,
	}
}

func (r reboot) proveByReboot(ctx context.Context) error {
	s, err := stateOf(ctx, r.Env)
	if err != nil {
		return err
	}
	if s == pending {
		return r.askReboot(ctx)
	}
	if err := r.console.ProveUnsealed(ctx); err != nil || s != rebooted {
		return err
	}
	last, err := note.Read(r.Mac.Files)
	if err != nil {
		return err
	}
	last.ProvedAt = r.Mac.Clock.Now().UTC()
	return note.Write(ctx, r.Mac.Files, last)
}

// askReboot records the reboot before it is made, so that the next boot is known
// as the one that was asked for.
func (r reboot) askReboot(ctx context.Context) error {
	if err := r.NoGuests(ctx, "the proof reboot ends them"); err != nil {
		return err
	}
	boot, err := step.BootSession(ctx, r.Mac)
	if err != nil {
		return err
	}
	if boot == "" {
		return step.Fail(document.Retry, "macOS does not say which boot this is, so that a reboot would not be noticed")
	}
	asked := rebootNote{Epoch: r.Desired.Host.Epoch, BootSession: boot, AskedAt: r.Mac.Clock.Now().UTC()}
	if err := note.Write(ctx, r.Mac.Files, asked); err != nil {
		return err
	}
	r.Report.Rebooting = true
	return nil
}
