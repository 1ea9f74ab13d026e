// Package converge makes the Mac it runs on what a desired document asks for,
// and says what came of it in a report. It is a list of steps, run in order
// under a lock. A step looks (check), changes what differs (act), and looks
// again, through another door where there is one (prove). Each can be repeated
// at any time: a run that was cut off is repaired by the next.
//
// steps.go has the table of steps, and here is a file for each of the small ones. What
// a step is, and what they share, is package step's. The larger ones are packages of
// their own: builds and launchd (the agent's builds and its two jobs), session,
// firewall, proofreboot, and takeover for Macs of the first system. Documents, reports
// and their exit codes are package document's; macOS is behind the interfaces of package
// macos. How a document gets here, and when, is the manager's.
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
	"github.com/macfleet/macfleet/internal/converge/step"
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
	e := o.env(d, &r)
	steps, err := chosen(o.steps(e), o.Step)
	if err != nil {
		return document.Report{}, err
	}
	if o.Plan {
		converge(ctx, e, steps)
		return o.seal(r), nil
	}
	return o.locked(ctx, &r, func() bool { converge(ctx, e, steps); return true }), nil
}

// locked runs a verb under the host's lock. The report is kept on the Mac when the verb
// says so.
func (o Options) locked(ctx context.Context, r *document.Report, verb func() (keep bool)) document.Report {
	unlock, err := o.lock(ctx)
	if err != nil {
		r.Steps = []document.StepReport{step.Failed("lock", err)}
		return o.seal(*r)
	}
	defer func() { _ = unlock.Close() }()
	if !verb() {
		return o.seal(*r)
	}
	return o.writeReport(ctx, o.seal(*r))
}

// converge runs steps towards what is desired.
func converge(ctx context.Context, e *step.Env, steps []step.Step) {
	e.Report.Epoch, e.Report.Revision = e.Desired.Host.Epoch, document.Revision(e.Desired)
	e.Report.Steps = append(e.Report.Steps, e.Run(ctx, steps)...)
}

func chosen(all []step.Step, name string) ([]step.Step, error) {
	if name == "" {
		return all, nil
	}
	for _, s := range all {
		if s.Name == name {
			return []step.Step{s}, nil
		}
	}
	return nil, fmt.Errorf("no step is called %q", name)
}

// lock takes the host's lock, so that two managers in a fail-over never act at
// once, and refuses a program that was uninstalled while it waited: for the lock,
// or for its document.
func (o Options) lock(ctx context.Context) (io.Closer, error) {
	unlock, err := o.takeLock(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.stillInstalled(ctx); err != nil {
		return nil, errors.Join(err, unlock.Close())
	}
	return unlock, nil
}

// stillInstalled fails when this program was started from an install dir that is
// gone. What it may do was given to the build in that folder.
func (o Options) stillInstalled(ctx context.Context) error {
	if !strings.HasPrefix(o.Self, document.InstallDir+"/") {
		return nil
	}
	_, err := o.Mac.Files.Stat(ctx, o.Self)
	if errors.Is(err, fs.ErrNotExist) {
		return step.Fail(document.Retry, "this program, %s, was removed after it was started, so it changes nothing: "+
			"start the one that is installed now, or upload one", o.Self)
	}
	if err != nil {
		return fmt.Errorf("looking at %s: %w", o.Self, err)
	}
	return nil
}

// takeLock waits for the lock. It lives in the state folder, which the first run of
// all makes.
func (o Options) takeLock(ctx context.Context) (io.Closer, error) {
	if err := o.Mac.Files.MakeDir(ctx, document.StateDir, step.RootAttr(0o700)); err != nil {
		return nil, fmt.Errorf("making %s: %w", document.StateDir, err)
	}
	unlock, err := step.Lock(ctx, o.Mac, lockFile, lockWait)
	if err != nil {
		return nil, err
	}
	if err := removeStagedFiles(o.Mac); err != nil {
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

// buildOf reads the build off the path of a program: staged builds and install dirs are
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

// writeReport leaves the report on the Mac, for a manager that lost the connection.
func (o Options) writeReport(ctx context.Context, r document.Report) document.Report {
	data, err := document.EncodeReport(r)
	if err == nil {
		err = step.Write(ctx, o.Mac.Files, step.File{Path: document.ReportFile, Data: data, Attr: step.RootAttr(0o600)})
	}
	if err != nil {
		r.Steps = append(r.Steps, step.Failed("report", err))
		return o.seal(r)
	}
	return r
}
