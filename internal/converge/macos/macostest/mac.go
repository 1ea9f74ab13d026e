// Package macostest is a Mac in memory, for tests of what converge decides: files
// with owners, names, launchd with its delays, a local server, and a clock that
// moves only when somebody sleeps. It models outcomes, not commands; the
// simulated Macs of the sandbox model those.
package macostest

import (
	"context"
	"time"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// Mac is one Mac. It is not safe for concurrent use.
type Mac struct {
	// Program is asked what the job of that label does each time launchd starts it.
	Program func(m *Mac, label string, pid int) Process
	// Fail, when set, is asked before each change; an error it returns is the
	// outcome and nothing changes. Calls are worded as in Changes.
	Fail func(call string) error
	// Boot is the boot session.
	Boot string
	// SettleAfterBootout is how long a label stays after bootout, 5 s when zero.
	SettleAfterBootout time.Duration
	// DeafKickstart makes kickstart succeed and do nothing.
	DeafKickstart bool
	// IdleBootstrap makes bootstrap load a job without starting it.
	IdleBootstrap bool
	// NoRespawn keeps a job down once its process ended, until a kickstart, as
	// Background Task Management does with jobs that register too often.
	NoRespawn bool
	// Pended makes launchd put off every start for good.
	Pended bool
	// Cryptic makes launchd's print say nothing that anybody understands.
	Cryptic bool
	// DisabledJobs are the labels that are switched off; StuckDisabled keeps enable
	// from changing that.
	DisabledJobs  map[string]bool
	StuckDisabled bool
	// Protected are the labels that bootout does not end.
	Protected map[string]bool

	// Power, Console, SSHD and System are how the Mac is.
	Power    Power
	Console  Console
	SSHD     SSHD
	System   System
	PF       PF
	GuestNet GuestNet

	// Changes is what was done, in order: "write PATH", "mkdir PATH", "link PATH",
	// "remove PATH", "set NAME", "sign PATH", and launchd's verbs, "kickstart -k"
	// among them, each with a label.
	Changes []string

	now     time.Time
	files   map[string]*file
	names   map[macos.Name]string
	jobs    map[string]*job
	lastPID int

	defaults   map[string]map[string]string
	volumes    []*macos.Volume
	lastVolume int
	unmounted  map[string]map[string]*file // what is on a volume, by its UUID
	ram        map[string]bool             // where RAM disks are mounted
	boots      int
	// cached are the signatures that the kernel keeps of files that were run.
	cached map[*file][32]byte
}

// Process is a program that launchd started.
type Process struct {
	// DiesAfter ends the process; zero means it stays.
	DiesAfter time.Duration
	// Socket is where it answers, from AnswersAfter on, with Answer.
	Socket       string
	Answer       []byte
	AnswersAfter time.Duration
	// Exit is how launchd words its end, "1" when empty.
	Exit string
}

// New returns a Mac as it is after an installation.
func New() *Mac {
	m := &Mac{
		Boot:  "5C1B6E0E-0000-4000-8000-000000000001",
		now:   time.Unix(1_800_000_000, 0).UTC(),
		files: map[string]*file{},
		names: map[macos.Name]string{},
		jobs:  map[string]*job{},

		Power:   newPower(),
		Console: Console{User: "m1", Password: "correct horse"},
		SSHD:    newSSHD(),
		System:  System{FreeBytes: 200e9},
		PF:      newPF(),

		defaults:  map[string]map[string]string{},
		unmounted: map[string]map[string]*file{},

		DisabledJobs: map[string]bool{},
		cached:       map[*file][32]byte{},
	}
	for _, dir := range []string{
		"/", "/etc", "/etc/sudoers.d", "/var", "/var/db", "/var/log", "/usr", "/usr/local", "/Library", "/Library/LaunchDaemons",
		"/Users", "/Users/m1", "/Volumes", "/var/run", "/etc/ssh", "/etc/ssh/sshd_config.d", "/etc/newsyslog.d",
		"/opt", "/opt/homebrew", "/opt/homebrew/bin",
	} {
		m.files[dir] = &file{Info: macos.Info{Dir: true, Attr: macos.Attr{Mode: 0o755, Owner: "root", Group: "wheel"}}}
	}
	m.Put(SSHPlist, []byte(sshDefinition), macos.Attr{Mode: 0o644, Owner: "root", Group: "wheel"})
	m.bootDaemons()
	return m
}

// Interfaces returns the Mac as converge takes it.
func (m *Mac) Interfaces() macos.Mac {
	return macos.Mac{
		Files: files{m}, Launchd: launchd{m}, Names: names{m}, Host: host{m}, Sockets: sockets{m}, Clock: clock{m},
		Signatures: signatures{m}, Sudo: sudo{m},
		Power: power{m}, Defaults: defaults{m}, Session: session{m}, Guests: guests{m}, Volumes: volumes{m},
		SSHD: sshd{m}, Sharing: sharing{m}, Images: images{m}, System: system{m}, Firewall: pf{m}, GuestNet: guestNet{m},
	}
}

func (m *Mac) change(call string) error {
	if m.Fail != nil {
		if err := m.Fail(call); err != nil {
			return err
		}
	}
	m.Changes = append(m.Changes, call)
	return nil
}

type names struct{ m *Mac }

func (n names) Get(_ context.Context, name macos.Name) (string, error) { return n.m.names[name], nil }

func (n names) Set(_ context.Context, name macos.Name, value string) error {
	if err := n.m.change("set " + string(name)); err != nil {
		return err
	}
	n.m.names[name] = value
	return nil
}

type host struct{ m *Mac }

func (h host) BootSession(context.Context) (string, error) { return h.m.Boot, nil }

type clock struct{ m *Mac }

func (c clock) Now() time.Time { return c.m.now }

func (c clock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.m.advance(c.m.now.Add(d))
	c.m.sealIfDue()
	return nil
}
