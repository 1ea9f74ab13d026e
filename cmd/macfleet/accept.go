package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/macfleet/macfleet/internal/accept"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
)

// exitDiffers: the report is written, and the Mac is not in all as the simulator has it.
const exitDiffers = 9

const acceptLong = `Takes a Mac that may be wiped through what macfleet has tried on simulated Macs only, and
writes one report, as text and as JSON: what was asked, what was seen, what a simulated Mac
prints, and what was not tried. It needs no cluster.

It reboots the Mac, replaces who may log in, tries the user's password once, which it asks
for without echo, and takes all of it back at its end, as far as that goes. Have the Mac reinstalled
afterwards. It refuses a Mac that bears the mark of a fleet.

The report holds no password, key, serial number, identifier or public address. Read it
before you send it.

Exit codes: 0 as simulated, 1 failed, 2 nothing was tried since the command line or an
answer cannot be used, 3 no connection, 4 the host key was not accepted, 5 the key is
refused, 6 the machine cannot be used, 9 the report is written and the Mac differs, 130
interrupted.`

// acceptFlags are the flags of accept; those that it shares with prepare mean the same.
type acceptFlags struct {
	prepareFlags
	next, image, suite, report string
	tart                       document.Tart
	skip                       []string
	yesWipe                    bool
}

func newAccept() *cobra.Command {
	var flags acceptFlags
	cmd := &cobra.Command{
		Use:     "accept ADDRESS",
		Short:   "Report what holds on a real Mac that may be wiped",
		Long:    acceptLong + "\n\nSections, in order:\n" + sectionsHelp(),
		Example: "  macfleet host accept 192.0.2.7 --key ~/.ssh/fleet",
		Args:    oneName("say which address the Mac has"),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.host = args[0]
			a, err := flags.acceptance()
			if err != nil {
				return usageError{err}
			}
			ctx, stop := untilHangUp(cmd.Context())
			defer stop()
			a.out, a.asked = cmd.OutOrStdout(), terminal{}
			return a.preparation.report(ctx, cmd.ErrOrStderr(), a.run(ctx))
		},
	}
	flags.add(cmd)
	set := cmd.Flags()
	set.StringVar(&flags.next, "next-agent", "", "another release of the agent, for the sections that take two")
	set.StringVar(&flags.image, "guest-image", "", "an image of macOS in a registry, for the section that has guests")
	set.StringVar(&flags.suite, "driver-suite", "", "the suite that the driver of tart has to pass, for the section that has guests (default: driver-suite beside macfleet, if it is there)")
	set.StringVar(&flags.tart.Version, "tart-version", "", "the release of tart to install (default: what the Mac has)")
	set.StringVar(&flags.tart.URL, "tart-url", "", "where that release is, a .tar.gz")
	set.StringVar(&flags.tart.SHA256, "tart-sha256", "", "the SHA-256 of that file")
	set.StringVar(&flags.report, "report", "macfleet-accept", "where the report goes: this with .txt and .json")
	set.StringSliceVar(&flags.skip, "skip", nil, "sections to leave out")
	set.BoolVar(&flags.yesWipe, "yes-wipe", false, "the Mac may be wiped: do not ask")
	_ = cmd.RegisterFlagCompletionFunc("skip", cobra.FixedCompletions(cobraWords(accept.Sections()), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// untilHangUp ends with the terminal, unless the program is to outlive it, as with nohup.
// The second Ctrl-C does not wait for what is ended.
func untilHangUp(ctx context.Context) (context.Context, context.CancelFunc) {
	stop := context.CancelFunc(func() {})
	if !signal.Ignored(syscall.SIGHUP) {
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
	}
	unhook := context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
	return ctx, func() { unhook(); stop() }
}

func sectionsHelp() string {
	var b strings.Builder
	for _, name := range accept.Sections() {
		fmt.Fprintf(&b, "  %-14s %s\n", name, accept.About(name))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// acceptance is one run of accept: a preparation's questions and words, and what follows.
type acceptance struct {
	*preparation
	flags   acceptFlags
	options accept.Options
}

// acceptance checks all that can be checked without the Mac.
func (f acceptFlags) acceptance() (*acceptance, error) {
	p, err := f.preparation()
	if err != nil {
		return nil, err
	}
	for _, name := range f.skip {
		if !slices.Contains(accept.Sections(), name) {
			return nil, fmt.Errorf("--skip %s is no section: there are %s", name, strings.Join(accept.Sections(), ", "))
		}
	}
	for _, path := range f.files() {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s is there already, or cannot be looked at: name another with --report", path)
		}
	}
	a := &acceptance{preparation: p, flags: f}
	o := &a.options
	if o.Simulated, err = accept.ReadSimulated(); err != nil {
		return nil, err
	}
	if o.Damaged, err = f.damaged(); err != nil {
		return nil, err
	}
	if f.next != "" {
		if o.Next, err = buildOf("--next-agent", f.next); err != nil {
			return nil, err
		}
		if o.Next.SHA256 == p.build.SHA256 {
			return nil, errors.New("--next-agent names the build that --agent does: name another release's")
		}
	}
	if o.Suite, err = f.driverSuite(); err != nil {
		return nil, err
	}
	if f.tart != (document.Tart{}) {
		if f.tart.Version == "" || f.tart.URL == "" || f.tart.SHA256 == "" {
			return nil, errors.New("--tart-version, --tart-url and --tart-sha256 go together: one is missing")
		}
		o.Tart = &f.tart
	}
	o.Target, o.Agent, o.Version, o.Skip, o.GuestImage, o.Now, o.Pause = p.target, p.build, version, f.skip, f.image, time.Now, remote.Pause
	return a, o.Check()
}

// driverSuite is nil where none is named and none lies beside macfleet.
func (f acceptFlags) driverSuite() (*remote.Build, error) {
	path := f.suite
	if path == "" {
		var err error
		if path, err = beside("driver-suite"); err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
	}
	return buildOf("--driver-suite", path)
}

// buildOf reads what a flag names beside the agent.
func buildOf(flag, path string) (*remote.Build, error) {
	if err := isAgent(path); err != nil {
		return nil, fmt.Errorf("%s: %w: name a program for Macs (darwin/arm64)", flag, err)
	}
	return remote.ReadBuild(path)
}

// damaged is the agent with a page that its signature does not know.
func (f prepareFlags) damaged() (*remote.Build, error) {
	path, err := f.agentFile()
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the agent: %w", err)
	}
	if program, err = accept.Damage(program); err != nil {
		return nil, err
	}
	return remote.NewBuild(program)
}

func (f acceptFlags) files() []string { return []string{f.report + ".txt", f.report + ".json"} }

// run asks for the host key before it logs in, and for the leave to wipe the Mac when it
// knows which one it is.
func (a *acceptance) run(ctx context.Context) error {
	if err := a.pin(ctx); err != nil {
		return err
	}
	a.say("its host key is pinned for this run: %s", a.target.Pin)
	a.options.Target, a.options.Say = a.target, func(line string) { a.say("%s", line) }
	a.options.Agree, a.options.Password = a.agree, a.secret
	// The files are there before the Mac is changed: that they cannot be written shows now.
	if err := a.create(); err != nil {
		return &endError{code: exitUsage, err: fmt.Errorf("writing the report: %w: name another place with --report", err)}
	}
	a.options.Save = func(r accept.Report) { _ = a.write(r) } // what fails is told at the end
	r, err := accept.Run(ctx, a.options)
	if err != nil {
		return errors.Join(a.notBegun(err), a.remove())
	}
	if err := a.write(r); err != nil {
		a.say("%s", r.Text())
		return err
	}
	a.say("%d rows: %d as simulated, %d differ, %d not simulated, %d not tried", len(r.Rows),
		r.Count(accept.AsSimulated), r.Count(accept.Differs), r.Count(accept.NotSimulated), r.Count(accept.NotTried))
	a.say("left on the Mac: %s", r.Left)
	a.say("the report is in %s: read it, then send it in with the issue form \"A real Mac\"", strings.Join(a.flags.files(), " and "))
	switch n := r.Count(accept.Differs); {
	case ctx.Err() != nil:
		return &endError{code: exitInterrupted, err: errors.New("interrupted: the report says what was tried until then")}
	case n > 0:
		return &endError{code: exitDiffers, err: fmt.Errorf("%d rows differ from what the simulator has", n)}
	}
	return nil
}

// agree has a person say that the Mac may be wiped, and says which one it is.
func (a *acceptance) agree(ctx context.Context, f remote.Facts) error {
	a.say("it is a %s with macOS %s, serial number %s; its console belongs to %s, and %d GB of its disk are free",
		f.Model, f.OSVersion, f.Serial, f.ConsoleUser, f.DiskFreeBytes/1e9)
	if a.flags.yesWipe {
		return nil
	}
	a.say("the Mac at %s is changed, rebooted, and should be reinstalled afterwards: what is on it may be lost", a.target.Address)
	answer, err := a.asked.line(ctx, "May it be wiped? Type wipe: ")
	if err != nil {
		return &endError{code: exitUsage, err: fmt.Errorf("asking whether the Mac may be wiped: %w: say it with --yes-wipe", err)}
	}
	if answer != "wipe" {
		return &endError{code: exitUsage, err: errors.New("the Mac may not be wiped: nothing was changed")}
	}
	return nil
}

// mostAsked is how often the password is asked for where only Enter is pressed.
const mostAsked = 3

// secret asks for the password.
func (a *acceptance) secret(ctx context.Context, optional bool) (remote.Secret, error) {
	prompt := fmt.Sprintf("Password of %s on the Mac: ", a.target.User)
	if optional {
		prompt = fmt.Sprintf("Password of %s on the Mac, for its console session (Enter goes on without): ", a.target.User)
	}
	for range mostAsked {
		text, err := a.asked.hidden(ctx, prompt)
		if err != nil {
			return nil, fmt.Errorf("asking for the password: %w: run this where you can type it", err)
		}
		if text != "" {
			return typed(text), typed(text).usable()
		}
		if optional {
			break
		}
	}
	return nil, typed("").usable()
}

// notBegun says why the Mac was not tried.
func (a *acceptance) notBegun(err error) error {
	var end *endError
	if errors.As(err, &end) {
		return err
	}
	if told := a.unreached(err); told != err { //nolint:errorlint // whether it is the very same
		return told
	}
	return &endError{code: exitUnfit, err: err}
}

// create makes the report's files, which were not there before.
func (a *acceptance) create() error {
	for _, path := range a.flags.files() {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// remove removes them where there is nothing to report.
func (a *acceptance) remove() error {
	var errs []error
	for _, path := range a.flags.files() {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}

// write writes both forms of the report, over what was written of it before.
func (a *acceptance) write(r accept.Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	for path, content := range map[string]string{a.flags.files()[0]: r.Text(), a.flags.files()[1]: string(text) + "\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return nil
}
