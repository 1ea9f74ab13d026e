package converge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const proofFile = document.StateDir + "/proof.json"

// proofNote is what is remembered of the proof reboot.
type proofNote struct {
	// Epoch it belongs to.
	Epoch int64 `json:"epoch"`
	// BootSession that the reboot was asked in; another one is the reboot.
	BootSession string    `json:"bootSession"`
	AskedAt     time.Time `json:"askedAt"`
	// ProvedAt is when everything had come back.
	ProvedAt time.Time `json:"provedAt,omitzero"`
}

// proofState is how far the proof of this epoch is.
type proofState string

const (
	// proofUnwanted: the profile asks for none.
	proofUnwanted proofState = "unwanted"
	// proofWanting: the Mac was not rebooted yet.
	proofWanting proofState = "wanting"
	// proofBooted: it was, and what came back is not recorded yet.
	proofBooted proofState = "booted"
	proofDone   proofState = "done"
)

func (t *target) proofState(ctx context.Context) (proofState, error) {
	if !t.desired.Mac.ProofReboot || t.desired.Host.TakeOver {
		return proofUnwanted, nil // guests may run on a Mac that is taken over
	}
	note, err := t.proofNote()
	if err != nil {
		return "", err
	}
	asked := note.Epoch == t.desired.Host.Epoch
	if asked && !note.ProvedAt.IsZero() {
		return proofDone, nil
	}
	boot, err := t.Mac.Host.BootSession(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the boot session: %w", err)
	}
	if asked && boot != note.BootSession && boot != "" {
		return proofBooted, nil
	}
	// A build is called proved after the reboot, or when none was wanted. Then the
	// Mac may be a Node with guests, and it is too late for one.
	if p, err := t.proved(); err != nil || p.Build != "" {
		return proofDone, err
	}
	return proofWanting, nil
}

// proofOwed reports whether the Mac must still reboot before it may join.
func (t *target) proofOwed(ctx context.Context) (bool, error) {
	s, err := t.proofState(ctx)
	return s == proofWanting, err
}

func (t *target) proofNote() (proofNote, error) {
	var note proofNote
	data, err := read(t.Mac.Files, proofFile)
	if errors.Is(err, fs.ErrNotExist) {
		return note, nil
	}
	if err != nil {
		return note, fmt.Errorf("reading %s: %w", proofFile, err)
	}
	if err := json.Unmarshal(data, &note); err != nil {
		// Half a note proves nothing.
		return proofNote{}, nil
	}
	return note, nil
}

func (t *target) writeProof(ctx context.Context, note proofNote) error {
	data, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encoding the proof: %w", err)
	}
	return write(ctx, t.Mac.Files, file{proofFile, append(data, '\n'), macos.Attr{Mode: 0o600, Owner: root, Group: wheel}})
}

// proof reboots the Mac once an install epoch, before it joins, and records that
// all earlier steps held afterwards: they looked again in the run that gets here.
// The reboot itself is the caller's, after the report was told.
func (t *target) proof() step {
	return step{
		name:  "proof",
		about: "Reboots the Mac once after its installation, when the profile asks for it before the Mac joins, to see that the session, the volume, the firewall and the jobs come back by themselves. Records it in `" + proofFile + "`.",
		undo:  "There is nothing to undo.",
		check: func(ctx context.Context) ([]string, error) {
			s, err := t.proofState(ctx)
			switch {
			case err != nil:
				return nil, err
			case s == proofWanting:
				return []string{"the Mac was not rebooted since it was installed"}, nil
			case s == proofBooted:
				return []string{"what came back after the reboot is not recorded"}, nil
			case !t.kickedAt.IsZero():
				return []string{"the session is new, its password may yet be sealed"}, nil
			}
			return nil, nil
		},
		act:   t.proveByReboot,
		prove: func(context.Context) error { return nil },
	}
}

func (t *target) proveByReboot(ctx context.Context) error {
	s, err := t.proofState(ctx)
	if err != nil {
		return err
	}
	if s == proofWanting {
		return t.askReboot(ctx)
	}
	if err := t.proveUnsealed(ctx); err != nil || s != proofBooted {
		return err
	}
	note, err := t.proofNote()
	if err != nil {
		return err
	}
	note.ProvedAt = t.Mac.Clock.Now().UTC()
	return t.writeProof(ctx, note)
}

// askReboot records the reboot before it is made, so that the next boot is known
// as the one that was asked for.
func (t *target) askReboot(ctx context.Context) error {
	if err := t.noGuests(ctx, "the proof reboot ends them"); err != nil {
		return err
	}
	boot, err := t.Mac.Host.BootSession(ctx)
	if err != nil {
		return fmt.Errorf("reading the boot session: %w", err)
	}
	if boot == "" {
		return fail(document.Retry, "macOS does not say which boot this is, so that a reboot would not be noticed")
	}
	note := proofNote{Epoch: t.desired.Host.Epoch, BootSession: boot, AskedAt: t.Mac.Clock.Now().UTC()}
	if err := t.writeProof(ctx, note); err != nil {
		return err
	}
	t.report.Rebooting = true
	return nil
}

// reboot makes the reboot of a report that says so, now that the report was told:
// the connection ends with the Mac. told is the end of the program otherwise.
func reboot(ctx context.Context, o Options, r document.Report, told error) error {
	if !r.Rebooting {
		return told
	}
	if err := o.Mac.System.Reboot(ctx); err != nil {
		return &ExitError{Code: document.ExitRetry, Err: fmt.Errorf("rebooting the Mac: %w", err)}
	}
	return told
}
