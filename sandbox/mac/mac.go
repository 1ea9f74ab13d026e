// Package mac makes simulated Macs: each a directory tree shaped like macOS, a
// supervisor and an SSH server on a loopback address of its own. A Mac runs in
// its own user, mount and pid namespace with the tree as its root, so absolute
// paths are its own, nothing outside the tree can be written, and everything
// in it dies with its first process. No privilege is needed. The network is
// the machine's own: a Mac reaches what listens on 127.0.0.1.
//
// What arrives over SSH runs for real in a POSIX shell over the commands of
// package shims; launchd jobs are real processes. A darwin/arm64 program runs
// as its Linux twin, registered by the SHA-256 of the darwin file, where sudo,
// env or launchd would execute it and its signature lets them; what codesign made
// of it runs as the same twin. What is not modelled ends with 127 or 64 and is
// listed by Unmodelled.
//
// Limits of the model: there is one real identity behind a Mac's root and its
// user. getuid(2) tells them apart (the user's processes live in a namespace
// where they are 501), but the kernel does not: file owners are remembered by
// the supervisor, set by chown and honoured by the commands, by sudo and by
// launchd, not by system calls, and chown(2) to another identity fails with
// EINVAL. /proc exists, since Linux programs need it. The quota of a volume is
// reported and not enforced, launchd runs no agents in a console session, and
// logs are rotated by size only.
//
// Vendors, clusters and the programs that manage Macs are left to others.
package mac

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// Facts are what a Mac says of its hardware and system.
type Facts = wire.Facts

// Execution is one command that ran on a Mac.
type Execution = wire.Execution

// Fault makes a command of a Mac fail.
type Fault = wire.Fault

// Options describe a Mac. Programs, Dir and Address are needed.
type Options struct {
	// Programs is the folder of static builds of cmd/macsim and cmd/macshim.
	Programs string
	// Dir holds the disk and state of this Mac; it is made when missing.
	Dir string
	// Address is the loopback address, SSHPort the port SSH answers on; 0
	// means 22, which needs privilege.
	Address netip.Addr
	SSHPort int
	// Facts of the hardware; zero fields get plausible values.
	Facts Facts
	// Username is the account of the image, m1 when empty.
	Username string
	Password string
	// AuthorizedKeys are injected into the account at installation.
	AuthorizedKeys []string
	// Twins maps the SHA-256 (hex) of a darwin program to the path of its
	// Linux twin on the real machine.
	Twins map[string]string
	// GuestPrograms are static programs of this machine that guests of the Mac have in
	// /usr/local/bin, and at their root.
	GuestPrograms []string
	// TimeScale divides the delays of the model (launchd's throttle and
	// settling, a wrong password's delay); 0 means 1.
	TimeScale float64
	// BootDelay passes between power and the boot sequence, in real time.
	BootDelay time.Duration
	// LockAfter is the number of wrong passwords in one boot after which the
	// account is locked, for SSH too; 0 means never.
	LockAfter int
	// FewWatches leaves the folder of daemons unwatched: what lies in it for a moment
	// only is not counted as registered. The kernel has few watches for a user, and
	// many Macs would take them all.
	FewWatches bool
	// AutoLogin has installations log the user in on the console by itself; a
	// delivered Mac does not.
	AutoLogin bool
	// Switches are what they are set to at first.
	Switches Switches
	// Log takes lines for whoever debugs; may be nil.
	Log func(string)
}

// Install says what a fresh disk gets. Empty fields keep what the Mac had.
type Install struct {
	OSVersion, Build string
	Username         string
	Password         string
	// AuthorizedKeys replace those of the last installation.
	AuthorizedKeys []string
	// AutoLogin is as in Options, from this installation on.
	AutoLogin bool
}

// ErrOff is returned for what only a running Mac can do.
var ErrOff = errors.New("the simulated Mac is off")

// Mac is one simulated Mac. Its methods may be called from many goroutines;
// those that change its power state take turns.
type Mac struct {
	o     Options
	shell wire.Shell

	// power serialises Start, Stop, Erase, Install, Reboot and a reboot from
	// the inside.
	power sync.Mutex

	mu       sync.Mutex
	account  account
	facts    Facts
	switches Switches
	beliefs  Beliefs
	run      *running // nil when off
	record   record
}

// account is what the last installation set.
type account struct {
	username, password string
	keys               []string
	autoLogin          bool
}

// New checks the options and prepares the folders; it starts nothing.
func New(o Options) (*Mac, error) {
	if !o.Address.IsLoopback() {
		return nil, fmt.Errorf("simulated Mac: address %s is not a loopback address", o.Address)
	}
	for name, v := range map[string]*string{"folder of programs": &o.Programs, "folder": &o.Dir} {
		if *v == "" {
			return nil, fmt.Errorf("simulated Mac: no %s", name)
		}
		abs, err := filepath.Abs(*v)
		if err != nil {
			return nil, fmt.Errorf("simulated Mac: %w", err)
		}
		*v = abs
	}
	o.Username = cmp.Or(o.Username, "m1")
	o.SSHPort = cmp.Or(o.SSHPort, 22)
	if o.Log == nil {
		o.Log = func(string) {}
	}
	shell, err := findShell()
	if err != nil {
		return nil, err
	}
	m := &Mac{
		o: o, shell: shell, facts: plausible(o.Facts, o.Address.String()),
		account: account{o.Username, o.Password, o.AuthorizedKeys, o.AutoLogin}, switches: o.Switches,
	}
	for _, dir := range []string{m.stateDir(), m.twinDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("simulated Mac: %w", err)
		}
	}
	for sum, path := range o.Twins {
		if err := m.AddTwin(sum, path); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// plausible fills what was not given with the facts of a common Mac mini, the
// identifiers derived from seed.
func plausible(f Facts, seed string) Facts {
	sum := sha256.Sum256([]byte(seed))
	setIfEmpty(&f.OSVersion, "15.6.1")
	setIfEmpty(&f.Build, "24G90")
	setIfEmpty(&f.Model, "Mac14,3")
	setIfEmpty(&f.Serial, "H"+strings.ToUpper(hex.EncodeToString(sum[:5]))[:9])
	setIfEmpty(&f.PlatformUUID, strings.ToUpper(uuid.NewSHA1(uuid.NameSpaceOID, sum[:]).String()))
	setIfEmpty(&f.MemoryBytes, 16<<30)
	setIfEmpty(&f.CPUs, 8)
	setIfEmpty(&f.DiskBytes, 494384795648)
	setIfEmpty(&f.DiskUsed, 60<<30)
	return f
}

func setIfEmpty[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Root is the path of the Mac's tree on the real machine, for assertions.
func (m *Mac) Root() string { return filepath.Join(m.o.Dir, "disk") }

// Address is where SSH answers.
func (m *Mac) Address() netip.AddrPort { return netip.AddrPortFrom(m.o.Address, uint16(m.o.SSHPort)) }

// Facts are what the Mac says of itself now.
func (m *Mac) Facts() Facts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.facts
}

func (m *Mac) stateDir() string { return filepath.Join(m.o.Dir, "state") }
func (m *Mac) twinDir() string  { return filepath.Join(m.o.Dir, "twins") }

// AddTwin registers a Linux twin; a running Mac sees it at once.
func (m *Mac) AddTwin(sha256hex, path string) error {
	to := filepath.Join(m.twinDir(), sha256hex)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	next := to + "." + uuid.NewString()
	if os.Link(path, next) != nil {
		if err := copyFile(path, next, 0o755); err != nil {
			return fmt.Errorf("adding a twin: %w", err)
		}
	}
	if err := os.Rename(next, to); err != nil {
		return fmt.Errorf("adding a twin: %w", err)
	}
	return nil
}

// SetFacts changes what the Mac says of itself, from now on.
func (m *Mac) SetFacts(ctx context.Context, f Facts) error {
	f = plausible(f, m.o.Address.String())
	m.mu.Lock()
	m.facts = f
	run := m.run
	m.mu.Unlock()
	if run == nil {
		return nil
	}
	return run.order(ctx, wire.Order{Facts: &f})
}

// ArmFault makes a command of the running Mac fail; a reboot disarms it.
func (m *Mac) ArmFault(ctx context.Context, f Fault) error {
	m.mu.Lock()
	run := m.run
	m.mu.Unlock()
	if run == nil {
		return ErrOff
	}
	return run.order(ctx, wire.Order{Fault: &f})
}
