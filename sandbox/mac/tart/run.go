package tart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guest"
)

// runOptions are the flags of run that have an effect here.
type runOptions struct {
	name            string
	vnc, fullVNC    bool
	shares          []guest.Share
	graphics, quiet bool
	suspendable     bool
	softnet         bool
	// ownNetwork: the guest is not on the Mac's shared network.
	ownNetwork bool
}

// runner is what starts a VM and stays until it has ended.
type runner struct{ *cli }

func (c runner) parseRun(args []string) (runOptions, error) {
	var o runOptions
	a := newArguments("run <name> [<options>]")
	a.BoolVar(&o.quiet, "no-graphics", false, "")
	a.BoolVar(&o.graphics, "graphics", false, "")
	a.BoolVar(&o.vnc, "vnc", false, "")
	a.BoolVar(&o.suspendable, "suspendable", false, "")
	a.BoolVar(&o.fullVNC, "vnc-experimental", false, "")
	dirs := a.StringArray("dir", nil, "")
	bridged := a.StringArray("net-bridged", nil, "")
	softnet := a.Bool("net-softnet", false, "")
	hostOnly := a.Bool("net-host", false, "")
	a.ignore(
		[]string{
			"serial", "no-audio", "no-clipboard", "no-trackpad", "no-keyboard", "no-pointer",
			"recovery", "nested", "capture-system-keys",
		},
		[]string{
			"serial-path", "disk", "root-disk-opts", "rosetta", "provisioning-opts", "net-softnet-allow",
			"net-softnet-block", "net-softnet-expose", "net-softnet-control-fd",
		},
	)
	words, err := a.parse(args, 1, 1)
	if err != nil {
		return o, err
	}
	o.name = words[0]
	switch {
	case o.vnc && o.fullVNC:
		return o, a.wrong("--vnc and --vnc-experimental are mutually exclusive")
	case o.graphics && o.quiet:
		return o, a.wrong("--graphics and --no-graphics are mutually exclusive")
	case len(*bridged) > 0 && *softnet, *softnet && *hostOnly, len(*bridged) > 0 && *hostOnly:
		return o, a.wrong("--net-bridged, --net-softnet and --net-host are mutually exclusive")
	}
	o.softnet = *softnet
	o.ownNetwork = len(*bridged) > 0 || *softnet || *hostOnly
	if o.shares, err = parseShares(*dirs); err != nil {
		return o, a.wrong("%v", err)
	}
	return o, nil
}

// run starts a VM and lives as long as it does.
func (c runner) run(_ context.Context, args []string) error {
	// From the first moment: a stop that arrives while the VM starts must still stop it.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2)
	o, err := c.parseRun(args)
	if err != nil {
		return err
	}
	vm, err := c.home.local(o.name)
	if err != nil {
		return err
	}
	if err := c.plan.killed(vm.names(), "begun"); err != nil {
		return err
	}
	for _, s := range o.shares {
		if _, err := os.Stat(s.Path); err != nil {
			return fmt.Errorf("sharing a directory: %w", err)
		}
	}
	cfg, lock, err := c.lockForRun(vm)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := c.plan.killed(vm.names(), "vm-lock"); err != nil {
		return err
	}
	machine, err := c.power(vm, cfg, o)
	if err != nil {
		return err
	}
	defer machine.gone()
	if err := c.plan.killed(vm.names(), "powered"); err != nil {
		return err
	}
	c.announceVNC(o)
	return c.attend(machine, signals)
}

// lockForRun takes the VM lock under that of TART_HOME, after a MAC that another
// running VM has was replaced. The configuration is read before, see lockConfig.
func (c runner) lockForRun(vm vmDir) (vmConfig, *os.File, error) {
	var cfg vmConfig
	storage, err := c.home.lock()
	if err != nil {
		return cfg, nil, err
	}
	defer storage.close()
	if err := c.plan.killed(vm.names(), "home-lock"); err != nil {
		return cfg, nil, err
	}
	mac := vm.mac()
	collides, err := c.home.anyLocal(func(other vmDir) bool {
		return other != vm && other.mac() == mac && other.holder() != 0
	})
	if err != nil {
		return cfg, nil, err
	}
	if collides {
		c.printf("There is already a running VM with the same MAC address!\n")
		c.printf("Resetting VM to assign a new MAC address...\n")
		if err := vm.renewMAC(); err != nil {
			return cfg, nil, err
		}
	}
	if cfg, err = vm.readConfig(); err != nil {
		return cfg, nil, err
	}
	lock, err := lockConfig(vm)
	if err == nil && lock == nil {
		c.journal.note(EventSecondRun, vm.name())
		err = stateError(fmt.Sprintf("VM %q is already running!", vm.name()))
	}
	return cfg, lock, err
}

// machine is a VM under power.
type machine struct {
	name    string
	names   string // those of faults
	os      string
	options runOptions
	dir     *os.Root // of the VM, also when a clone takes its name away
	guest   *guestProcess
	slot    *slot     // nil for a Linux guest
	line    io.Closer // to the shared network
}

// gone tidies up after a machine that has ended in order. tart leaves the control
// socket where it was; nobody answers there.
func (m *machine) gone() {
	_ = m.line.Close()
	_ = m.dir.Close()
}

// power starts the guest. The VM shows as running already, also when this fails.
func (c runner) power(vm vmDir, cfg vmConfig, o runOptions) (*machine, error) {
	if err := c.startFaults(vm); err != nil {
		return nil, err
	}
	if err := c.restore(vm); err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(string(vm))
	if err != nil {
		return nil, fmt.Errorf("opening the VM: %w", err)
	}
	m := &machine{name: vm.name(), names: vm.names(), os: cfg.OS, options: o, dir: dir}
	if cfg.OS == osDarwin {
		if m.slot, err = c.takeSlot(); err != nil {
			return nil, err
		}
		if m.slot == nil {
			return nil, c.overLimit(vm)
		}
	}
	spec, err := c.guestSpec(vm, cfg, o)
	if err != nil {
		return nil, err
	}
	var net network
	m.line = io.NopCloser(nil)
	if !o.ownNetwork {
		if m.line, net, err = joinNetwork(vm.name()); err != nil {
			return nil, err
		}
	}
	spec.DHCP = net.dhcp(spec.DHCP, c.plan.Plan)
	if m.guest, err = startGuest(c.program, spec); err != nil {
		_ = m.line.Close()
		return nil, err
	}
	if err := c.openSocket(spec); err != nil {
		m.cut()
		m.gone()
		return nil, err
	}
	return m, nil
}

// openSocket is where a control socket cannot be opened. Up to 2.35 run only says so,
// and nobody reaches the guest's agent.
func (c runner) openSocket(s guestSpec) error {
	switch {
	case !s.NoSocket:
		return nil
	case c.plan.minor() >= stackedMinor:
		return errNoSocket
	}
	_, _ = fmt.Fprintf(c.env.Stderr, "Failed to run control socket: %v\n", errNoSocket)
	return nil
}

var errNoSocket = errors.New("bind(descriptor:ptr:bytes:): No space left on device (errno: 28)")

func (c runner) startFaults(vm vmDir) error {
	if err := needSession(); err != nil {
		return err
	}
	if err := c.plan.strikes(RunExitsEarly, vm.names(), errors.New(`VZErrorDomain Code=1 "The virtual machine failed to start."`)); err != nil {
		return err
	}
	if err := c.plan.strikes(RunNoSession, vm.names(), lockedKeychain(macOSVersion())); err != nil {
		return err
	}
	hit, err := c.plan.fires(RunLimit, vm.names())
	if err != nil || !hit {
		return err
	}
	return c.overLimit(vm)
}

// lockedKeychain is what the virtualization framework says where the login keychain is
// locked. macOS 15 keeps the status to its log.
func lockedKeychain(version string) error {
	if major, _, _ := strings.Cut(version, "."); major == "15" {
		return errors.New(`Error Domain=VZErrorDomain Code=1 "The virtual machine failed to start." ` +
			`UserInfo={NSLocalizedFailure=Internal Virtualization error., NSLocalizedFailureReason=The virtual machine failed to start.}`)
	}
	return errors.New(`VZErrorDomain Code=-9 "The operation couldn't be completed." (HostKey, OSStatus -25308)`)
}

// restore uses up a saved state: it is good for one start.
func (c runner) restore(vm vmDir) error {
	if !exists(vm.saved()) {
		return nil
	}
	c.printf("restoring VM state from a snapshot...\n")
	if err := os.Remove(vm.saved()); err != nil {
		return fmt.Errorf("deleting a restored state: %w", err)
	}
	c.printf("resuming VM...\n")
	return nil
}

func (c runner) guestSpec(vm vmDir, cfg vmConfig, o runOptions) (guestSpec, error) {
	root, err := filepath.Abs(vm.guest())
	if err != nil {
		return guestSpec{}, fmt.Errorf("finding the guest's directory: %w", err)
	}
	s := guestSpec{
		Name: vm.name(), Root: root, Userland: userland(), Hardware: etherHardware(cfg.MACAddress), Shares: o.shares,
		BootDelay: time.Duration(c.plan.BootDelay), ShutdownGrace: time.Duration(c.plan.ShutdownGrace),
		DHCP: dhcp{
			File: c.leaseFile, Lock: filepath.Join(c.stateDir, "dhcp.lock"), Offset: time.Duration(c.plan.ClockOffset),
		},
		Agent: agentSpec{Delay: time.Duration(c.plan.AgentDelay), Generation: c.plan.Agent},
	}
	if cfg.OS == osLinux {
		s.Hardware = duidHardware(cfg.MACAddress)
	}
	for kind, set := range map[FaultKind]*bool{
		BootNoLease: &s.NoLease, BootCrash: &s.Crash, StaleLease: &s.StaleToo, DHCPEmpty: &s.DHCP.Empty,
		GuestIgnoresShutdown: &s.Deaf, AgentNever: &s.Agent.Never, SocketFails: &s.NoSocket,
	} {
		if *set, err = c.plan.fires(kind, vm.names()); err != nil {
			return s, err
		}
	}
	for _, f := range c.plan.Faults {
		if f.Kind == AgentDrops && matches(vm.names(), f.Name) {
			s.Agent.DropName = f.Step
			if s.Agent.Drops = f.Times; f.Times == 0 {
				s.Agent.Drops = -1
			}
		}
	}
	return s, nil
}

func (c runner) announceVNC(o runOptions) {
	if o.fullVNC {
		c.printf("VNC server is running at vnc://:able-baker-charlie-delta@127.0.0.1:5900\n")
	}
	if o.vnc {
		c.printf("VNC server is running at vnc://127.0.0.1\n")
	}
}
