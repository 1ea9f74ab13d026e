package converge

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// carryOut does what an instruction asks for, when the fleet's key has signed it
// for this Mac and it is newer than all that the Mac took before. This is all that
// the console user may have root do without a password: whoever is the console user
// can pass instructions on, and write none.
func carryOut(ctx context.Context, o Options, r document.Received) document.Report {
	report := o.newReport(ctx, r.Verb)
	return o.locked(ctx, &report, func() bool {
		if refused := accept(ctx, o.Mac.Files, r, &report); refused != nil {
			// The kept report stays that of the last run that the fleet wanted.
			report.Steps = []document.StepReport{*refused}
			return false
		}
		report.Steps = []document.StepReport{{Name: "signature", Outcome: document.Unchanged}}
		switch r.Verb {
		case document.VerbConverge:
			e := o.env(*r.Desired, &report)
			converge(ctx, e, o.steps(e))
		case document.VerbUpgrade:
			o.upgrade(ctx, &report, r.Build)
		case document.VerbLeave:
			o.leave(ctx, &report)
		case document.VerbUninstall:
			o.uninstall(ctx, &report, false)
		}
		return true
	})
}

// accept refuses an instruction, or notes that it was taken. That is noted before it
// is acted on, so that what a power cut interrupts is not done twice: the manager
// signs anew.
func accept(ctx context.Context, files macos.Files, r document.Received, report *document.Report) *document.StepReport {
	refuse := func(name string, err error) *document.StepReport {
		s := step.Failed(name, err)
		return &s
	}
	key, err := keyOfUnmarkedDisk(files, r)
	if err != nil {
		return refuse("journal", err)
	}
	if key == nil {
		if key, err = upgradeKey(files); err != nil {
			return refuse("signature", err)
		}
	}
	if !r.SignedBy(key) {
		return refuse("signature", step.Fail(document.Human, "the %s is not signed by this fleet's key: only the fleet's manager "+
			"can tell this Mac what to do, or a person with the password of an administrator", r.Verb))
	}
	last, err := readCounter(files)
	if err != nil {
		return refuse("signature", err)
	}
	if r.Counter <= last {
		report.Counter = last
		return refuse("signature", step.Fail(document.Retry, "the %s is an old one: its counter is %d, and this Mac took %d already; "+
			"have it signed anew", r.Verb, r.Counter, last))
	}
	if err := counter.Write(ctx, files, instructionCounter{r.Counter}); err != nil {
		return refuse("signature", err)
	}
	return nil
}

// keyOfUnmarkedDisk fails for an instruction that is not for this disk. A disk that is not
// marked belongs to nobody: it takes the document that brings a key, when that key
// has signed it, and that key is returned.
func keyOfUnmarkedDisk(files macos.Files, r document.Received) (ed25519.PublicKey, error) {
	j, err := readDiskMarker(files)
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.Verb != document.VerbConverge:
		return nil, step.Fail(document.Human, "this Mac belongs to no fleet: its disk is not marked")
	case errors.Is(err, fs.ErrNotExist) && len(r.Desired.UpgradeKey) == 0:
		return nil, step.Fail(document.Human, "the document brings no key of a fleet, and none is installed")
	case errors.Is(err, fs.ErrNotExist):
		return r.Desired.UpgradeKey, nil
	case err != nil:
		return nil, err
	}
	return nil, anothersDisk(j, document.Host{Name: r.Name, ProviderID: r.ProviderID, Epoch: r.Epoch})
}

// instructionCounter is the counter of the last instruction that the Mac took.
type instructionCounter struct {
	Counter int64 `json:"counter"`
}

var counter = step.Note[instructionCounter]{
	Path: document.CounterFile, What: "the counter of instructions", Damaged: damagedCounter,
}

// damagedCounter: a file that cannot be read is no reason to take old instructions again.
func damagedCounter() error {
	return step.Fail(document.Human, "%s is damaged, so old instructions cannot be told from new ones: reinstall this Mac, "+
		"or remove the file as root and have the manager push again at once", document.CounterFile)
}

// readCounter is that of the last instruction, and 0 before the first.
func readCounter(files macos.Files) (int64, error) {
	last, found, err := counter.Find(files)
	if err == nil && found && last.Counter <= 0 {
		err = damagedCounter()
	}
	return last.Counter, err
}
