// Package supervisor is pid 1 of a simulated Mac: it keeps the state document
// (owners of files, names, launchd's overrides), answers the shims, runs
// programs for sudo, launchd and SSH, and tells the host side what happened.
// Mounting the tree is package boot's, the models are their own packages'.
package supervisor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/amfi"
	"github.com/macfleet/macfleet/sandbox/mac/apfs"
	"github.com/macfleet/macfleet/sandbox/mac/boot"
	"github.com/macfleet/macfleet/sandbox/mac/directory"
	"github.com/macfleet/macfleet/sandbox/mac/launchd"
	"github.com/macfleet/macfleet/sandbox/mac/pf/vmnet"
	"github.com/macfleet/macfleet/sandbox/mac/pmset"
	"github.com/macfleet/macfleet/sandbox/mac/prefs"
	"github.com/macfleet/macfleet/sandbox/mac/process"
	loginwindow "github.com/macfleet/macfleet/sandbox/mac/session"
	"github.com/macfleet/macfleet/sandbox/mac/sshd"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// pid1 is the running Mac.
type pid1 struct {
	cfg     wire.Config
	host    *hostLine
	state   *state
	table   *process.Table
	launchd *launchd.Launchd
	hostKey sync.Mutex
	account *directory.Account
	amfi    amfi.Kernel
	tickets tickets
	door    *door
	prefs   *prefs.Store
	disk    *apfs.Disk
	power   *pmset.Power
	console *loginwindow.Loginwindow
	net     *vmnet.Network
	pfctls  atomic.Int64

	mu     sync.Mutex
	facts  wire.Facts
	quirks wire.Quirks
	faults []wire.Fault
}

// Main runs pid 1 over the socket it inherited from the host side and returns
// its exit code. It ends when that socket does, and everything in the Mac with it.
func Main(control *os.File) int {
	host := &hostLine{enc: json.NewEncoder(control)}
	orders := json.NewDecoder(bufio.NewReader(control))
	var cfg wire.Config
	if err := orders.Decode(&cfg); err != nil {
		return 1
	}
	p, err := start(cfg, host)
	if err != nil {
		host.send(failure(err))
		return 1
	}
	host.send(wire.Event{Kind: wire.EventReady})
	if err := p.obey(orders); !errors.Is(err, io.EOF) {
		return 1
	}
	return 0
}

// enterError is a failure to become a Mac's root, which a kernel may refuse.
type enterError struct{ error }

func (e *enterError) Unwrap() error { return e.error }

func failure(err error) wire.Event {
	e := wire.Event{Kind: wire.EventFailed, Text: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Errno = int(errno)
	}
	var entering *enterError
	e.Refused = errors.As(err, &entering) && (errno == syscall.EPERM || errno == syscall.EACCES)
	return e
}

// start brings the Mac up in the order a real one does: disks, then launchd's
// jobs, then the network's front door.
func start(cfg wire.Config, host *hostLine) (*pid1, error) {
	st, err := openState(cfg)
	if err != nil {
		return nil, err
	}
	if err := boot.Enter(cfg); err != nil {
		return nil, &enterError{err}
	}
	p := &pid1{
		cfg: cfg, host: host, state: st, facts: cfg.Facts, quirks: cfg.Switches.Quirks,
		account: &directory.Account{Password: cfg.Password, LockAfter: cfg.LockAfter, Scale: cfg.TimeScale},
	}
	p.table = process.NewTable(wire.TwinDir, trust{p})
	p.door = &door{p: p}
	go p.reap()
	if err := p.startNetwork(); err != nil {
		return nil, err
	}
	if err := p.serveShims(); err != nil {
		return nil, err
	}
	p.startConsole()
	if err := p.startTools(); err != nil {
		return nil, err
	}
	p.launchd = launchd.New(launchd.Options{
		System: (*machine)(p), Scale: cfg.TimeScale, Overrides: st.overrides(),
		Registrations: p.registrations(), Switches: cfg.Switches,
		Username: cfg.Username, Console: p.console.Active, BuiltIn: p.builtIn(),
	})
	if !cfg.Switches.Quirks.BaseSystem {
		if err := p.startJobs(); err != nil {
			return nil, err
		}
	}
	sshServer{p}.serveSSH()
	return p, p.turn(cfg.Switches)
}

// startJobs starts what runs once the disk is unlocked: the daemons, and
// loginwindow after them.
func (p *pid1) startJobs() error {
	daemons, err := filepath.Glob("/Library/LaunchDaemons/*.plist")
	if err != nil {
		return fmt.Errorf("listing daemons: %w", err)
	}
	p.launchd.Boot(append(daemons, wire.ScreenSharingPlist))
	if !p.cfg.FewWatches {
		if err := p.watchDaemons(); err != nil {
			return err
		}
	}
	if !p.quirk().NoLoginwindow {
		p.console.Boot()
	}
	return nil
}

func (p *pid1) reap() {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for range children {
		p.table.Reap()
	}
}

func (p *pid1) serveShims() error {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: wire.SocketPath, Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("listening for shims: %w", err)
	}
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			go p.serveShim(wire.NewPackets(conn))
		}
	}()
	return nil
}

func (p sshServer) serveSSH() {
	p.door.server = sshd.New(sshd.Options{
		HostKeys: p.hostKeys, Authorized: p.authorized, AccountOpen: p.accountOpen, Configure: p.configureSSH,
		Start: p.login, Log: p.log,
	})
}

// obey carries out the host side's orders until it hangs up, which is io.EOF.
func (p *pid1) obey(orders *json.Decoder) error {
	for {
		var o wire.Order
		if err := orders.Decode(&o); err != nil {
			return err
		}
		p.mu.Lock()
		if o.Facts != nil {
			p.facts = *o.Facts
		}
		if o.Fault != nil {
			p.faults = append(p.faults, *o.Fault)
		}
		p.mu.Unlock()
		if err := p.inject(o); err != nil {
			p.host.send(wire.Event{Kind: wire.EventDone, Seq: o.Seq, Text: err.Error(), RC: cannotExecuteRC})
			continue
		}
		if o.Script != "" {
			go p.runScript(o)
			continue
		}
		p.host.send(wire.Event{Kind: wire.EventDone, Seq: o.Seq, PF: p.obeyPF(o.PF)})
	}
}

func (p *pid1) log(text string) { p.host.send(wire.Event{Kind: wire.EventLog, Text: text}) }

func (p *pid1) record(e wire.Execution) {
	e.Time = time.Now()
	p.host.send(wire.Event{Kind: wire.EventExecuted, Execution: &e})
}

func (p *pid1) world() wire.World {
	p.mu.Lock()
	defer p.mu.Unlock()
	return wire.World{
		Facts: p.facts, Username: p.cfg.Username, BootSession: p.cfg.BootSession,
		BootUnix: p.cfg.BootTime.Unix(), TimeScale: p.cfg.TimeScale,
	}
}

// fault takes the armed fault that fits a command, if there is one.
func (p *pid1) fault(argv []string) *wire.Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.faults {
		f := &p.faults[i]
		if !fits(*f, argv) {
			continue
		}
		hit := *f
		if f.Count--; f.Count <= 0 {
			p.faults = append(p.faults[:i], p.faults[i+1:]...)
		}
		return &hit
	}
	return nil
}

func fits(f wire.Fault, argv []string) bool {
	if len(argv) == 0 || filepath.Base(argv[0]) != f.Command {
		return false
	}
	if f.Argument == "" {
		return true
	}
	for _, a := range argv[1:] {
		if a == f.Argument {
			return true
		}
	}
	return false
}

// hostLine sends events to the host side, one at a time.
type hostLine struct {
	mu  sync.Mutex
	enc *json.Encoder
}

// send ignores failures: when the host side is gone this Mac is ending anyway.
func (h *hostLine) send(e wire.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.enc.Encode(e)
}
