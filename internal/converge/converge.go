// Package converge makes the Mac it runs on what a desired document asks for,
// and says what came of it in a report. It is a list of steps, run in order
// under a lock. A step looks (check), changes what differs (act), and looks
// again, through another door where there is one (prove). Each can be repeated
// at any time: a run that was cut off is mended by the next.
//
// Documents, reports and their exit codes are package document's; macOS is
// behind the interfaces of package macos. How a document gets here, and when,
// is the manager's. Every build of the agent gets a slot, and an inode, of its
// own, so that no signature that macOS cached can belong to other bytes.
package converge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

// Options say how to run. Mac is required, the rest has working zero values.
type Options struct {
	// Mac to work on.
	Mac macos.Mac
	// Self is the file this program was started from: the artefact that the agent
	// step installs when its SHA-256 is the wanted one.
	Self string
	// Home is the SSH user's home, where upgrade finds builds.
	Home string
	// Fetch downloads what the document names by URL; nil: by HTTPS.
	Fetch Fetch
	// Plan looks and changes nothing.
	Plan bool
	// Step runs the step of that name only.
	Step string
	// TakeOver also retires what an older system left on the Mac.
	TakeOver bool
	// Invoker is who asked for root's help, by sudo; the console user of a Mac
	// whose configuration is lost. May be empty.
	Invoker string
}

// Run converges the Mac to a document that nobody has signed: for a person who is
// root by a password, and for Macs that are nobody's yet. The report holds every
// failure; an error is returned only when the options name a step that does not
// exist.
func Run(ctx context.Context, o Options, d document.Desired) (document.Report, error) {
	r := o.newReport(ctx, document.VerbConverge)
	t := &target{Options: o, desired: d, report: &r}
	steps, err := chosen(t.steps(), o.Step)
	if err != nil {
		return document.Report{}, err
	}
	if o.Plan {
		t.converge(ctx, steps)
		return o.seal(r), nil
	}
	unlock, err := o.lock(ctx)
	if err != nil {
		r.Steps = []document.StepReport{failedStep("lock", err)}
		return o.seal(r), nil
	}
	defer func() { _ = unlock.Close() }()
	t.converge(ctx, steps)
	return o.keep(ctx, o.seal(r)), nil
}

// converge runs steps towards what is desired.
func (t *target) converge(ctx context.Context, steps []step) {
	t.report.Epoch, t.report.Revision = t.desired.Host.Epoch, document.Revision(t.desired)
	t.report.Steps = append(t.report.Steps, t.run(ctx, steps)...)
}

func chosen(all []step, name string) ([]step, error) {
	if name == "" {
		return all, nil
	}
	for _, s := range all {
		if s.name == name {
			return []step{s}, nil
		}
	}
	return nil, fmt.Errorf("no step is called %q", name)
}

// lock takes the host's lock, so that two managers in a fail-over never act at
// once, and refuses a program that was uninstalled while it waited: for the lock,
// or for its document.
func (o Options) lock(ctx context.Context) (io.Closer, error) {
	unlock, err := o.take(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.stillInstalled(ctx); err != nil {
		return nil, errors.Join(err, unlock.Close())
	}
	return unlock, nil
}

// stillInstalled fails when this program was started from a slot that is gone. What
// it may do was given to the build in that slot.
func (o Options) stillInstalled(ctx context.Context) error {
	if !strings.HasPrefix(o.Self, document.InstallDir+"/") {
		return nil
	}
	_, err := o.Mac.Files.Stat(ctx, o.Self)
	if errors.Is(err, fs.ErrNotExist) {
		return fail(document.Retry, "this program, %s, was removed after it was started, so it changes nothing: "+
			"start the one that is installed now, or upload one", o.Self)
	}
	if err != nil {
		return fmt.Errorf("looking at %s: %w", o.Self, err)
	}
	return nil
}

// take waits for the lock. It lives in the state folder, which the first run of
// all makes.
func (o Options) take(ctx context.Context) (io.Closer, error) {
	if err := o.Mac.Files.MakeDir(ctx, document.StateDir, rootOnly); err != nil {
		return nil, fmt.Errorf("making %s: %w", document.StateDir, err)
	}
	unlock, err := lock(ctx, o.Mac, lockFile, lockWait)
	if err != nil {
		return nil, err
	}
	if err := removeCut(o.Mac); err != nil {
		return nil, errors.Join(err, unlock.Close())
	}
	return unlock, nil
}

func (o Options) newReport(ctx context.Context, verb string) document.Report {
	r := document.Report{
		Schema:  document.ReportSchema,
		Verb:    verb,
		Build:   buildOf(o.Self),
		Started: o.Mac.Clock.Now().UTC(),
	}
	// Without a boot session the report is less telling, and no less true.
	r.BootSession, _ = o.Mac.Host.BootSession(ctx)
	return r
}

// buildOf reads the build off the path of a program: staged builds and slots are
// named by their SHA-256.
func buildOf(self string) string {
	for _, name := range []string{path.Base(self), path.Base(path.Dir(self))} {
		if document.IsSHA256(name) {
			return name
		}
	}
	return ""
}

// seal ends the report: the time, and the exit code of the first failure.
func (o Options) seal(r document.Report) document.Report {
	r.Finished = o.Mac.Clock.Now().UTC()
	r.Exit = document.ExitUnchanged
	if r.Changed() {
		r.Exit = document.ExitChanged
	}
	if s, failed := r.FailedStep(); failed {
		r.Exit = s.Class.Exit()
	}
	return r
}

// keep leaves the report on the Mac, for a manager that lost the connection.
func (o Options) keep(ctx context.Context, r document.Report) document.Report {
	data, err := document.EncodeReport(r)
	if err == nil {
		err = write(ctx, o.Mac.Files, file{document.ReportFile, data, macos.Attr{Mode: 0o600, Owner: root, Group: wheel}})
	}
	if err != nil {
		r.Steps = append(r.Steps, failedStep("report", err))
		return o.seal(r)
	}
	return r
}
