package converge

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// Instructed does what an instruction asks for, when the fleet's key has signed it
// for this Mac and it is newer than all that the Mac took before. This is all that
// the console user may have root do without a password: whoever is the console user
// can pass instructions on, and write none.
func Instructed(ctx context.Context, o Options, r document.Received) document.Report {
	report := o.newReport(ctx, r.Verb)
	unlock, err := o.lock(ctx)
	if err != nil {
		report.Steps = []document.StepReport{failedStep("lock", err)}
		return o.seal(report)
	}
	defer func() { _ = unlock.Close() }()
	t := &target{Options: o, report: &report}
	if refused := t.take(ctx, r); refused != nil {
		// The kept report stays that of the last run that the fleet wanted.
		report.Steps = []document.StepReport{*refused}
		return o.seal(report)
	}
	report.Steps = []document.StepReport{{Name: "signature", Outcome: document.Unchanged}}
	switch r.Verb {
	case document.VerbConverge:
		t.desired = *r.Desired
		t.converge(ctx, t.steps())
	case document.VerbUpgrade:
		t.upgrade(ctx, r.Build)
	case document.VerbLeave:
		t.leave(ctx)
	case document.VerbUninstall:
		t.uninstall(ctx, false)
	}
	return o.keep(ctx, o.seal(report))
}

// take refuses an instruction, or notes that it was taken. That is noted before it
// is acted on, so that what a power cut interrupts is not done twice: the manager
// signs anew.
func (t *target) take(ctx context.Context, r document.Received) *document.StepReport {
	refuse := func(step string, err error) *document.StepReport {
		s := failedStep(step, err)
		return &s
	}
	key, err := t.belongs(r)
	if err != nil {
		return refuse("journal", err)
	}
	if key == nil {
		if key, err = t.upgradeKey(); err != nil {
			return refuse("signature", err)
		}
	}
	if !r.SignedBy(key) {
		return refuse("signature", fail(document.Human, "the %s is not signed by this fleet's key: only the fleet's manager "+
			"can tell this Mac what to do, or a person with the password of an administrator", r.Verb))
	}
	last, err := t.counter()
	if err != nil {
		return refuse("signature", err)
	}
	if r.Counter <= last {
		t.report.Counter = last
		return refuse("signature", fail(document.Retry, "the %s is an old one: its counter is %d, and this Mac took %d already; "+
			"have it signed anew", r.Verb, r.Counter, last))
	}
	if err := t.noteCounter(ctx, r.Counter); err != nil {
		return refuse("signature", err)
	}
	return nil
}

// belongs fails for an instruction that is not for this disk. A disk that is not
// marked belongs to nobody: it takes the document that brings a key, when that key
// has signed it, and that key is returned.
func (t *target) belongs(r document.Received) (ed25519.PublicKey, error) {
	j, err := readJournal(t.Mac.Files)
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.Verb != document.VerbConverge:
		return nil, fail(document.Human, "this Mac belongs to no fleet: its disk is not marked")
	case errors.Is(err, fs.ErrNotExist) && len(r.Desired.UpgradeKey) == 0:
		return nil, fail(document.Human, "the document brings no key of a fleet, and none is installed")
	case errors.Is(err, fs.ErrNotExist):
		return r.Desired.UpgradeKey, nil
	case err != nil:
		return nil, err
	}
	return nil, disowned(j, document.Host{Name: r.Name, ProviderID: r.ProviderID, Epoch: r.Epoch})
}

// taken is the counter of the last instruction that the Mac took.
type taken struct {
	Counter int64 `json:"counter"`
}

// counter is that of the last instruction, and 0 before the first. A file that
// cannot be read is no reason to take old ones again.
func (t *target) counter() (int64, error) {
	data, err := read(t.Mac.Files, document.CounterFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the counter of instructions: %w", err)
	}
	var last taken
	if err := json.Unmarshal(data, &last); err != nil || last.Counter <= 0 {
		return 0, fail(document.Human, "%s is damaged, so old instructions cannot be told from new ones: reinstall this Mac, "+
			"or remove the file as root and have the manager push again at once", document.CounterFile)
	}
	return last.Counter, nil
}

func (t *target) noteCounter(ctx context.Context, counter int64) error {
	data, err := json.Marshal(taken{counter})
	if err == nil {
		err = write(ctx, t.Mac.Files, file{document.CounterFile, append(data, '\n'), rootFile})
	}
	if err != nil {
		return fmt.Errorf("noting the counter of an instruction: %w", err)
	}
	return nil
}
