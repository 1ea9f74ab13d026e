// Package accept takes one Mac that may be wiped through what is simulated elsewhere, and
// reports what holds on macOS: stage 0, converge, the proof reboot, the doctor, a change of
// builds, and the way back. What the Mac prints is compared with what simulated Macs print.
// It needs no cluster. It asks nobody anything and writes no file: that is the caller's, and
// so is the leave to wipe the Mac.
package accept

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/converge"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/session"
	"github.com/macfleet/macfleet/internal/remote"
)

// Options of a run. Next, Tart and those of guests may be left out.
type Options struct {
	// Target is the Mac, with its host key pinned.
	Target remote.Target
	// Agent is the build that the Mac is given, Next another release of it, and Damaged what
	// Damage makes of the first.
	Agent, Next, Damaged *remote.Build
	// Suite is test/driversuite for Macs. Nil: the driver of tart is not tried.
	Suite *remote.Build
	// Tart is the release to install. Nil: what the Mac has.
	Tart *document.Tart
	// GuestImage is the image of macOS that guests are made of. Empty: there are none.
	GuestImage string
	// GuestConnect is what guests try connections with, as nc -z does. Empty: nc.
	GuestConnect string
	// Agree says whether the Mac of these facts may be wiped: an error ends the run, when
	// nothing was done yet. Nil: it may be.
	Agree func(ctx context.Context, f remote.Facts) error
	// Password asks for the user's password, once at most, before the first section: a
	// person may take their time. No password is an error. optional: it is for the console
	// session alone.
	Password func(ctx context.Context, optional bool) (remote.Secret, error)
	// Skip names sections to leave out.
	Skip []string
	// Version of the program that reports.
	Version string
	Now     func() time.Time
	// Pause waits between two looks at a Mac that reboots.
	Pause func(ctx context.Context, d time.Duration) error
	// Save is given the report after each section. Nil: only the whole one is wanted.
	Save func(r Report)
	// Say tells what is being done.
	Say func(line string)
	// Simulated is what to compare with.
	Simulated Simulated
}

// ErrTaken means that the Mac is not for trials: a fleet has it, or had it since its
// installation.
var ErrTaken = errors.New("the Mac bears the mark of a fleet, or of a trial before this one: nothing is left changed: have it reinstalled, and be sure that it is the right one")

// trial is one Mac on its way through the sections.
type trial struct {
	Options
	hide    *redactor
	started time.Time
	mac     Mac
	rows    []Row
	// went says which sections went to their end; those that did not are false, and those
	// that were not tried are not in it.
	went map[string]bool
	left string

	// section is the one under way, with its connection and what the Mac says of itself.
	section string
	session *remote.Session
	facts   remote.Facts

	// password is what was asked for; where there is none, noPassword says why.
	password   remote.Secret
	noPassword error
	// before is the boot session in which converge ran first or asked for the proof reboot,
	// and rebooting says that it asked for it, or that the Mac has rebooted since.
	before    string
	rebooting bool
	desired   document.Desired
	signer    *document.Signer
}

// Sections names the sections in their order.
func Sections() []string {
	var names []string
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}

// About says what a section does.
func About(name string) string {
	for _, s := range sections() {
		if s.name == name {
			return s.about
		}
	}
	return ""
}

// Run takes the Mac through all sections that are not skipped. It returns an error only
// where nothing was done to the Mac; what fails later is in the report.
func Run(ctx context.Context, o Options) (Report, error) {
	t, err := newTrial(o)
	if err != nil {
		return Report{}, err
	}
	if err := t.first(ctx); err != nil {
		return Report{}, err
	}
	if o.Agree != nil {
		if err := o.Agree(ctx, t.facts); err != nil {
			return Report{}, err
		}
	}
	if !slices.Contains(o.Skip, "root") {
		t.ask(ctx)
	}
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	for _, s := range sections() {
		if err := t.take(ctx, s); errors.Is(err, ErrTaken) {
			return Report{}, err
		}
		if o.Save != nil {
			o.Save(t.report())
		}
	}
	return t.report(), nil
}

// ask asks for the password, which no report shows from now on.
func (t *trial) ask(ctx context.Context) {
	password, err := t.Password(ctx, t.facts.Sudo)
	if err != nil {
		t.noPassword = err
		return
	}
	t.password = password
	t.hide.hideWord(password.Reveal(), "password", t.Simulated)
}

// report is what is known by now.
func (t *trial) report() Report {
	return Report{
		Schema: Schema, Version: t.Version, Started: t.started, Finished: t.Now().UTC(),
		Mac: t.mac, Rows: t.rows, Questions: answers(t.rows), Left: t.left,
	}
}

// Check looks whether the options can be used, without the Mac.
func (o Options) Check() error {
	if o.GuestImage != "" && !imageShape.MatchString(o.GuestImage) {
		return fmt.Errorf("%q names no image", o.GuestImage)
	}
	if err := o.document(nil).Validate(); err != nil {
		return fmt.Errorf("what the Mac would be told: %w", err)
	}
	return nil
}

func newTrial(o Options) (*trial, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	t := &trial{Options: o, hide: newRedactor(o.Target.User), started: o.Now().UTC(), went: map[string]bool{}, left: leftNothing}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key for the Mac's instructions: %w", err)
	}
	t.desired = o.document(public)
	t.signer = document.NewSigner(key, t.desired.Host, o.Now)
	t.hide.hideWord(o.Target.Address, "address", o.Simulated)
	return t, nil
}

// document is what the Mac is to become: as a fleet's would be, but that it joins nothing.
func (o Options) document(upgradeKey ed25519.PublicKey) document.Desired {
	return document.Desired{
		Host: document.Host{
			Name: "macfleet-accept", ProviderID: "none", Epoch: 1, User: o.Target.User, Address: o.Target.Address,
			SSHPort: o.Target.Port,
		},
		Agent: document.Agent{SHA256: o.Agent.SHA256, Version: o.Version},
		Node:  document.Node{MaxVMs: document.MaxMaxVMs},
		Mac: document.Mac{
			Tart: o.Tart, ProofReboot: true, GuestQuotaBytes: quota,
			Network: document.Network{Subnet: document.DefaultSubnet, DenyPrivate: true},
		},
		UpgradeKey: upgradeKey,
		SSHKeys:    []string{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(o.Target.Key.PublicKey())))},
	}
}

// quota is the ceiling of the volume for guests; a volume takes no room by itself.
const quota = 100e9

// first connects for the first time, and refuses a Mac that is not for trials.
func (t *trial) first(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if err := t.connect(ctx); err != nil {
		return err
	}
	defer t.hangUp()
	f := t.facts
	switch {
	case taken(f):
		return ErrTaken
	case f.Arch != "" && f.Arch != "arm64":
		return fmt.Errorf("it is %s and not Apple silicon: nothing was changed: is the address right?", f.Arch)
	case f.VirtualMachine:
		return errors.New("it is a virtual machine and no Mac: nothing was changed: is the address right?")
	case f.OSVersion == "" || f.Serial == "":
		return errors.New("it names no version of macOS, or no serial number: nothing was changed: is it a Mac?")
	case f.FileVault == remote.On:
		return errors.New("FileVault is on, or comes with the next login, so that the Mac does not come back from a reboot without a person: nothing was changed: turn it off, or have the Mac reinstalled")
	}
	if err := t.mayConverge(ctx); err != nil {
		return err
	}
	t.mac = Mac{Model: f.Model, OS: f.OSVersion, Build: f.Build, CPUs: f.CPUs, GiBytes: f.MemoryBytes >> 30}
	t.hide.hide(f.Serial, "serial")
	t.hide.hide(f.PlatformUUID, "uuid")
	if session.AnotherUser(f.ConsoleUser, t.Target.User) {
		t.hide.hideWord(f.ConsoleUser, "somebody", t.Simulated)
	}
	if f.Client.IsValid() {
		t.hide.hide(f.Client.String(), "address")
		t.desired.Host.ManagedFrom = f.Client.String()
	}
	return nil
}

// taken says that a fleet has the Mac, or had it. The mark can be read by root alone.
func taken(f remote.Facts) bool {
	return f.SudoAgent || f.DiskMarker != nil || f.DiskMarkerDamaged || f.CurrentAgent != ""
}

// refuseTaken looks once more when the mark can be read, and takes the rule back.
func (t *trial) refuseTaken(ctx context.Context) error {
	t.hangUp()
	if err := t.connect(ctx); err != nil || !taken(t.facts) {
		return err
	}
	if err := t.orders(ctx, t.withoutRule()); err != nil {
		return errors.Join(ErrTaken, fmt.Errorf("taking the right to become root back: %w: remove /etc/sudoers.d/%s-nopasswd", err, t.Target.User))
	}
	return ErrTaken
}

// mayConverge refuses a Mac on which converge is known to fail before the agent is
// installed: the way back is the agent's.
func (t *trial) mayConverge(ctx context.Context) error {
	if slices.Contains(t.Skip, "converge") {
		return nil
	}
	switch f := t.facts; {
	case len(f.Missing()) > 0:
		return fmt.Errorf("it does not say its %s: nothing was changed: is it a Mac?", strings.Join(f.Missing(), ", "))
	case session.AnotherUser(f.ConsoleUser, t.Target.User):
		return fmt.Errorf("its console belongs to %s: nothing was changed: log that user out, or name it with --user", f.ConsoleUser)
	case f.DiskFreeBytes < converge.MinFree:
		return fmt.Errorf("%d GB of its disk are free, converge needs %d: nothing was changed: have the Mac reinstalled", f.DiskFreeBytes/1e9, int64(converge.MinFree/1e9))
	case t.Tart != nil:
		return nil
	}
	for _, place := range converge.TartPlaces() {
		_, _, code, err := t.execute(ctx, run{line: "xattr " + place}.shellLine(false), "")
		if err != nil || code == 0 {
			return err
		}
	}
	return errors.New("it has no tart, which converge needs: nothing was changed: name a release with --tart-version, --tart-url and --tart-sha256")
}

// connect dials and probes anew: each section begins with what the Mac says by then.
func (t *trial) connect(ctx context.Context) error {
	session, err := remote.Dial(ctx, t.Target)
	if err != nil {
		return err
	}
	facts, err := session.Probe(ctx)
	if err != nil {
		return errors.Join(err, session.Close())
	}
	t.session, t.facts = session, facts
	return nil
}

func (t *trial) hangUp() {
	if t.session != nil {
		_ = t.session.Close()
	}
	t.session = nil
}

// take goes through one section, or says why it does not, and returns what broke it off.
func (t *trial) take(ctx context.Context, s section) error {
	t.section = s.name
	if why := t.whyNot(ctx, s); why != "" {
		t.notTried(s.name, s.about, why)
		return nil
	}
	t.Say(s.name + ": " + s.about)
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	began := t.Now()
	var err error
	switch {
	case s.patient:
		err = t.connectPatiently(ctx)
	case !s.absent:
		err = t.connect(ctx)
	}
	if err == nil {
		err = s.run(ctx, t)
	}
	t.hangUp()
	seen := []string{"to its end"}
	if err != nil {
		// What a failure was is told once more by the rows before it; its kind is compared.
		seen = []string{"broken off: " + strings.Join(t.hide.lines(err.Error()), "; ")}
		t.Say(s.name + ": " + seen[0])
	}
	t.add(Row{ID: "end", Asked: "Does it go to its end?", Seen: seen, Seconds: t.Now().Sub(began).Seconds()})
	t.went[s.name] = err == nil
	return err
}

// whyNot says why a section is not tried; empty: it is.
func (t *trial) whyNot(ctx context.Context, s section) string {
	switch {
	case ctx.Err() != nil:
		return "the run was ended before it"
	case slices.Contains(t.Skip, s.name):
		return "it was to be skipped"
	}
	for _, need := range s.needs {
		if !t.went[need] {
			return "section " + need + ", which it needs, did not go to its end"
		}
	}
	for _, other := range s.after {
		if went, tried := t.went[other]; tried && !went {
			return "section " + other + " was broken off"
		}
	}
	if s.lacks != nil {
		return s.lacks(t)
	}
	return ""
}

// add judges a row of the section under way.
func (t *trial) add(r Row) {
	r.Section = t.section
	t.rows = append(t.rows, t.Simulated.Judge(r))
}

func (t *trial) notTried(id, asked, why string) {
	t.rows = append(t.rows, Row{Section: t.section, ID: id, Asked: asked, Verdict: NotTried, Why: why})
}
