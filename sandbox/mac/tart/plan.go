package tart

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guest"
)

// Plan is the file named by TART_FAKE_FAULTS: which tart this is, how long things
// take, and what goes wrong. It is read at the start of each command; a guest keeps
// what its run has read. The zero value is tart 2.32.1 in a hurry, without faults.
type Plan struct {
	// Version as --version prints it; the dialect follows from its minor number. Before
	// 31 list has SizeOnDisk and no Accessed, and the licence limit is told in the
	// framework's words (the number is our guess, between releases known to differ).
	// 36 stands for what is not released yet: text shows human units, Disk is the size
	// of the disk in any format, images may come in layers, and a control socket that
	// cannot be opened ends run. Default 2.32.1.
	Version string `json:"version,omitempty"`
	// AgentDelay passes between that lease and the guest agent. Default none.
	AgentDelay Duration `json:"agentDelay,omitempty"`
	// Agent is the generation of the guest agent: "old", "env" (v0.11.0) or "signals" (in
	// no release). Default env.
	Agent guest.Generation `json:"agent,omitempty"`
	// BootDelay passes between the start of a guest and its lease. Default 20 ms.
	BootDelay Duration `json:"bootDelay,omitempty"`
	// ShutdownGrace is how long a guest that shuts down waits for its processes after
	// SIGTERM. Who is to be answered has half of it. Default 2 s.
	ShutdownGrace Duration `json:"shutdownGrace,omitempty"`
	// PullBytesPerSecond is how fast an image comes in, by the size the registry says it
	// has. Default: at once.
	PullBytesPerSecond int64 `json:"pullBytesPerSecond,omitempty"`
	// CopyBytes makes clone copy whole disks, as across volumes, instead of what is
	// allocated of them.
	CopyBytes bool `json:"copyBytes,omitempty"`
	// ClockOffset is how far the Mac's clock is off, as DHCP and the access times see it.
	ClockOffset Offset `json:"clockOffset,omitempty"`
	// ResetLeaks frees leaked licence slots, as a reboot of the Mac does.
	ResetLeaks bool `json:"resetLeaks,omitempty"`
	// Credentials are what private images ask for, by a part of their reference, as
	// "user:password". Default: any will do.
	Credentials map[string]string `json:"credentials,omitempty"`
	// Images are tags that the registry has beside or instead of its own, by their
	// whole reference; changing one moves the tag to a new digest.
	Images map[string]Image `json:"images,omitempty"`
	// PullDelay is the time a whole image takes, CloneDelay that of a copy under the
	// lock of TART_HOME. Default none.
	PullDelay  Duration `json:"pullDelay,omitempty"`
	CloneDelay Duration `json:"cloneDelay,omitempty"`
	// RefuseReplace has clone refuse a name that is taken, as a later tart is said to.
	RefuseReplace bool `json:"refuseReplace,omitempty"`
	// Network is the first three octets of the guests' addresses. Default: what the
	// Mac's vmnet is set to, else 192.168.64.
	Network string `json:"network,omitempty"`
	// LeaseTime is how long a DHCP lease is valid. Default: what the Mac's bootpd is
	// set to, else one day.
	LeaseTime Duration `json:"leaseTime,omitempty"`
	Faults    []Fault  `json:"faults,omitempty"`
}

// Fault is one thing that goes wrong.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Name restricts the fault to images whose reference as it was given contains it, to
	// VMs whose name does, and to what was cloned from either.
	Name string `json:"name,omitempty"`
	// Step narrows it further: for RunKilled one of the steps of run ("begun", "home-lock",
	// "vm-lock", "powered" or "running"), for AgentDrops a part of the command line or its environment.
	Step string `json:"step,omitempty"`
	// After lets so many occasions pass first; Times then ends the fault after so many
	// failures, 0 meaning never. Rewriting the plan with other content counts anew.
	After int `json:"after,omitempty"`
	Times int `json:"times,omitempty"`
}

// FaultKind says where a fault strikes.
type FaultKind string

// The faults. Those of pull strike the implicit pull of a clone as well.
const (
	PullUnauthorized     FaultKind = "pull-unauthorized"      // the registry answers 401
	PullNotFound         FaultKind = "pull-not-found"         // the registry answers 404
	PullServerError      FaultKind = "pull-server-error"      // the registry answers 500
	PullNoSpace          FaultKind = "pull-no-space"          // the volume is full, exit 1
	PullInterrupted      FaultKind = "pull-interrupted"       // fails half way; a pull right after it resumes
	PullStalls           FaultKind = "pull-stalls"            // hangs half way until it is stopped
	CloneNoSpace         FaultKind = "clone-no-space"         // ENOSPC, exit 1, nothing left behind
	SetNoSpace           FaultKind = "set-no-space"           // ENOSPC, exit 1, the configuration is lost
	DeleteNoSpace        FaultKind = "delete-no-space"        // a VM in layers cannot be deleted, exit 1
	SocketFails          FaultKind = "socket-fails"           // the control socket cannot be opened: exit 1 from 36 on, no agent before
	DuplicateMAC         FaultKind = "duplicate-mac"          // a clone keeps a MAC that is taken
	RunExitsEarly        FaultKind = "run-exits-early"        // exit 1 after the VM lock was taken
	RunNoSession         FaultKind = "run-no-session"         // locked keychain: VZErrorDomain Code=-9, on macOS 15 Code=1, exit 1
	RunLimit             FaultKind = "run-limit"              // the licence limit, whatever runs
	RunIgnoresStop       FaultKind = "run-ignores-stop"       // SIGINT has no effect, SIGKILL has
	RunKilled            FaultKind = "run-killed"             // run is killed at a Step
	SoftnetDies          FaultKind = "softnet-dies"           // a softnet guest loses it once it runs, exit 1
	NetworkLost          FaultKind = "network-lost"           // the network attachment breaks once the guest runs, exit 0
	BootNoLease          FaultKind = "boot-no-lease"          // the guest never gets an address
	BootCrash            FaultKind = "boot-crash"             // the guest crashes instead of coming up
	StaleLease           FaultKind = "stale-lease"            // a wrong lease of the same MAC looks newer
	DHCPEmpty            FaultKind = "dhcp-empty"             // others hold all addresses
	AgentNever           FaultKind = "agent-never"            // the guest agent never comes up
	AgentDrops           FaultKind = "agent-drops"            // Times commands of a boot (0: all) lose their connection once begun
	GuestIgnoresShutdown FaultKind = "guest-ignores-shutdown" // shutdown in the guest has no effect
	SlotLeak             FaultKind = "slot-leak"              // a guest's own shutdown leaves its licence slot taken
	ListTruncated        FaultKind = "list-truncated"         // list prints half of its output and exits 0
	ListHangs            FaultKind = "list-hangs"             // list prints nothing until it is stopped
)

// Duration is a time.Duration, in JSON a string such as "1.5s".
type Duration time.Duration

// MarshalText writes the form that time.ParseDuration reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a non-negative duration with its unit.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	if v < 0 {
		return fmt.Errorf("negative duration %s", v)
	}
	*d = Duration(v)
	return nil
}

// Offset is a Duration that may be negative.
type Offset time.Duration

// MarshalText writes the form that time.ParseDuration reads.
func (o Offset) MarshalText() ([]byte, error) { return []byte(time.Duration(o).String()), nil }

// UnmarshalText reads a duration with its unit.
func (o *Offset) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*o = Offset(v)
	return err
}

// armedPlan is a plan with a file that counts the occasions of its faults.
type armedPlan struct {
	Plan
	counter string
}

// loadPlan takes a missing file for an empty plan and an unreadable one for an error.
func loadPlan(path string) (*armedPlan, error) {
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("reading the fault plan: %w", err)
	}
	p := armedPlan{
		Plan:    Plan{BootDelay: Duration(20 * time.Millisecond), ShutdownGrace: Duration(2 * time.Second)},
		counter: fmt.Sprintf("%s.%x", path, sha256.Sum256(data))[:len(path)+9],
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &p.Plan); err != nil {
			return nil, fmt.Errorf("parsing the fault plan: %w", err)
		}
	}
	p.defaults()
	return &p, nil
}

func (p *armedPlan) defaults() {
	if p.Version == "" {
		p.Version = "2.32.1"
	}
}

// minor is the second number of the version, 0 if there is none.
func (p *armedPlan) minor() int {
	parts := strings.Split(p.Version, ".")
	if len(parts) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(parts[1])
	return n
}

// matches reports whether text has part in it, as every text has nothing.
func matches(text, part string) bool { return strings.Contains(text, part) }

// fires reports whether a fault of this kind strikes name now, and counts it.
func (p *armedPlan) fires(kind FaultKind, name string) (bool, error) {
	return p.firesAt(kind, name, "")
}

// firesAt is fires for a fault that has a step.
func (p *armedPlan) firesAt(kind FaultKind, name, step string) (bool, error) {
	for i, f := range p.Faults {
		if f.Kind != kind || !matches(name, f.Name) || (step != "" && f.Step != step) {
			continue
		}
		if f.After == 0 && f.Times == 0 {
			return true, nil
		}
		seen, err := p.count(i)
		if err != nil {
			return false, err
		}
		if seen >= f.After && (f.Times == 0 || seen < f.After+f.Times) {
			return true, nil
		}
	}
	return false, nil
}

// killed ends run where the plan says so, like kill -9.
func (p *armedPlan) killed(name, step string) error {
	hit, err := p.firesAt(RunKilled, name, step)
	if err != nil || !hit {
		return err
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("dying: %w", err)
	}
	select {} // the signal is on its way
}

// strikes is fires for faults that are nothing but an error.
func (p *armedPlan) strikes(kind FaultKind, name string, failure error) error {
	hit, err := p.fires(kind, name)
	if err != nil || !hit {
		return err
	}
	return failure
}

// count adds one occasion of the i-th fault and returns how many there were before.
// The file has one byte an occasion, '0' + i, written under its lock.
func (p *armedPlan) count(i int) (before int, err error) {
	f, err := os.OpenFile(p.counter, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return 0, fmt.Errorf("counting faults: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lock, err := flock(p.counter)
	if err != nil {
		return 0, fmt.Errorf("counting faults: %w", err)
	}
	defer lock.close()
	data, err := os.ReadFile(p.counter)
	if err != nil {
		return 0, fmt.Errorf("counting faults: %w", err)
	}
	mark := byte('0' + i)
	if _, err := f.Write([]byte{mark}); err != nil {
		return 0, fmt.Errorf("counting faults: %w", err)
	}
	return strings.Count(string(data), string(mark)), nil
}

// pause waits d, or until SIGINT.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
