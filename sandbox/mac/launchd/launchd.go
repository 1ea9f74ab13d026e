// Package launchd models macOS' launchd for the system domain: jobs defined by
// property lists, real processes kept alive and throttled, asynchronous
// removal, the persistent override database, and the exit codes and texts of
// launchctl. Starting and killing processes, and knowing who owns a file, is
// left to the caller behind the System interface.
package launchd

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// settleTime is how long a label stays taken after its process is gone
// (macOS: about 3 to 5 s).
const settleTime = 3 * time.Second

// bootoutPatience is how long launchctl bootout waits for the process before
// it returns "operation now in progress".
const bootoutPatience = 500 * time.Millisecond

// errCannotRead stands for every reason launchd has to refuse a plist.
var errCannotRead = errors.New("property list refused")

// Spawn is what the system is asked to start.
type Spawn struct {
	Label    string
	Path     string
	Argv     []string
	Env      map[string]string
	UserName string
	Dir      string
	Stdin    string
	Stdout   string
	Stderr   string
}

// Status is how a process ended.
type Status struct {
	Code   int
	Signal syscall.Signal
	// Reason is what the kernel gives for having killed it, or nothing.
	Reason string
}

// System is the machine beneath launchd.
type System interface {
	// Spawn starts a process in a group of its own and calls exited once when
	// it ends, from another goroutine.
	Spawn(s Spawn, exited func(Status)) (pid int, err error)
	// Signal signals one process, SignalGroup its whole group.
	Signal(pid int, sig syscall.Signal)
	SignalGroup(pid int, sig syscall.Signal)
	// ReadPlist returns the bytes of a property list after the checks of
	// owner and mode that launchd makes.
	ReadPlist(path string) ([]byte, error)
	// SaveOverrides persists the override database: label to disabled.
	SaveOverrides(map[string]bool)
	// SaveRegistrations persists what background task management saw.
	SaveRegistrations(Registrations)
	// Log takes one line for whoever debugs.
	Log(string)
	// Unmodelled records a use of what the model does not cover.
	Unmodelled(string)
}

// Options configure a Launchd.
type Options struct {
	System System
	// Clock drives every delay; the real one when nil.
	Clock clock.WithDelayedExecution
	// Scale divides every delay; 0 means 1.
	Scale float64
	// Overrides is the override database as it was saved.
	Overrides map[string]bool
	// Username has a console session as uid 501, unless Console says no.
	Username string
	// Console reports whether the user's gui domain exists; nil means yes.
	Console func() bool
	// BuiltIn are jobs of macOS' own, by label.
	BuiltIn map[string]BuiltIn
	// Registrations are those on record when the machine boots.
	Registrations Registrations
	// Switches hold the limits of background task management.
	Switches wire.Switches
}

// Launchd supervises the jobs of one booted Mac.
type Launchd struct {
	sys     System
	clock   clock.WithDelayedExecution
	scale   float64
	user    string
	console func() bool
	builtIn map[string]BuiltIn

	mu        sync.Mutex
	jobs      map[string]*job
	unloaded  map[string]bool // of builtIn
	overrides map[string]bool
	halted    bool
	faults    []wire.JobFault

	background    Registrations
	respawnLimit  int
	databaseLimit int64
}

// New returns a launchd with no job loaded.
func New(o Options) *Launchd {
	l := &Launchd{
		sys: o.System, clock: o.Clock, scale: o.Scale, user: o.Username, console: o.Console,
		builtIn: o.BuiltIn,
		jobs:    map[string]*job{}, unloaded: map[string]bool{}, overrides: map[string]bool{},
		background: Registrations{Count: o.Registrations.Count, Known: maps.Clone(o.Registrations.Known)},
	}
	l.Tune(o.Switches)
	if l.clock == nil {
		l.clock = clock.RealClock{}
	}
	if l.scale <= 0 {
		l.scale = 1
	}
	if l.console == nil {
		l.console = func() bool { return true }
	}
	maps.Copy(l.overrides, o.Overrides)
	return l
}

// Boot loads every property list of a folder in name order, as at start-up.
// What is refused or disabled is logged and passed over; nothing is loaded at
// all when the database of background items is past its limit.
func (l *Launchd) Boot(paths []string) {
	if l.choked() {
		l.sys.Log("launchd: no daemon loaded: the database of background items is too large")
		return
	}
	slices.Sort(paths)
	for _, p := range paths {
		if rc := l.bootstrap(p); rc != 0 {
			l.sys.Log(fmt.Sprintf("launchd: %s not loaded: %d", filepath.Base(p), rc))
		}
	}
}

// Halt stops starting processes; the machine is going down.
func (l *Launchd) Halt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted = true
}

func (l *Launchd) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / l.scale)
}

func (l *Launchd) bootstrap(path string) int {
	if rc, ok := l.bootstrapBuiltIn(path); ok {
		return rc
	}
	d, data, err := l.read(path)
	if err != nil {
		l.sys.Log(fmt.Sprintf("launchd: %s: %v", path, err))
		return codeIO
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.registerLocked(path, data)
	if old, ok := l.jobs[d.Label]; ok {
		if old.removing {
			return codeIO
		}
		return codeAlready
	}
	if l.disabledLocked(d) {
		return codeDisabled
	}
	for _, key := range d.Unknown {
		l.sys.Unmodelled("launchd property list key " + key)
	}
	j := &job{l: l, def: d, path: path, changed: make(chan struct{})}
	l.jobs[d.Label] = j
	if _, off := l.faultLocked(d.Label, wire.NotSpawned); off || !d.RunAtLoad && !d.KeepAlive.any() {
		return 0
	}
	j.spawnLocked("speculative")
	return 0
}

func (l *Launchd) disabledLocked(d Definition) bool {
	if disabled, ok := l.overrides[d.Label]; ok {
		return disabled
	}
	return d.Disabled
}

func (l *Launchd) read(path string) (Definition, []byte, error) {
	if !strings.HasSuffix(path, ".plist") {
		return Definition{}, nil, fmt.Errorf("%w: not named .plist", errCannotRead)
	}
	data, err := l.sys.ReadPlist(path)
	if err != nil {
		return Definition{}, nil, fmt.Errorf("%w: %w", errCannotRead, err)
	}
	d, err := Parse(data)
	if err != nil {
		return Definition{}, nil, fmt.Errorf("%w: %w", errCannotRead, err)
	}
	return d, data, nil
}

// bootout removes a job. It comes back early with codeInProgress when the
// process is slow to die; the label stays taken until it has settled.
func (l *Launchd) bootout(label string) int {
	if rc, ok := l.bootoutBuiltIn(label); ok {
		return rc
	}
	l.mu.Lock()
	j, ok := l.jobs[label]
	if !ok || j.removing {
		l.mu.Unlock()
		return codeNoProcess
	}
	j.removing = true
	if j.pid == 0 {
		j.settleLocked()
		l.mu.Unlock()
		return 0
	}
	j.terminateLocked()
	gone := j.changed
	l.mu.Unlock()
	select {
	case <-gone:
		return 0
	case <-l.clock.After(l.scaled(bootoutPatience)):
		return codeInProgress
	}
}

// kickstart starts a job now, with restart after ending its process first. It
// returns the pid of the process that runs when it is done.
func (l *Launchd) kickstart(label string, restart bool) (int, int) {
	l.mu.Lock()
	if b, ok := l.builtInLocked(label); ok {
		l.mu.Unlock()
		return 0, b.Kick(restart)
	}
	j, ok := l.jobs[label]
	if !ok || j.removing {
		l.mu.Unlock()
		return 0, codeNotFound
	}
	if _, ignored := l.faultLocked(label, wire.KickIgnored); ignored {
		defer l.mu.Unlock()
		return j.pid, 0
	}
	if j.pid == 0 {
		defer l.mu.Unlock()
		return j.kickLocked()
	}
	if !restart {
		defer l.mu.Unlock()
		return j.pid, codeAlready
	}
	j.restart = true
	j.terminateLocked()
	gone := j.changed
	l.mu.Unlock()
	<-gone
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.removing {
		return 0, codeNotFound
	}
	if j.pid == 0 {
		return 0, codeIO
	}
	return j.pid, 0
}

func (l *Launchd) setDisabled(label string, disabled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.overrides[label] = disabled
	l.sys.SaveOverrides(maps.Clone(l.overrides))
}

func (l *Launchd) signal(label string, sig syscall.Signal) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	j, ok := l.jobs[label]
	switch {
	case !ok:
		return codeNotFound
	case j.pid == 0:
		return codeNoProcess
	}
	if _, ignores := l.faultLocked(label, wire.IgnoresTerm); ignores && sig == syscall.SIGTERM {
		return 0
	}
	l.sys.Signal(j.pid, sig)
	return 0
}
