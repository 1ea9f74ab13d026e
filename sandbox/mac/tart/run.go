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
)

// runOptions are the flags of run that have an effect here.
type runOptions struct {
	name            string
	vnc, fullVNC    bool
	shares          []share
	graphics, quiet bool
	// ownNetwork: the guest is not on the Mac's shared network.
	ownNetwork bool
}

func (c *cli) parseRun(args []string) (runOptions, error) {
	var o runOptions
	a := newArguments("run <name> [<options>]")
	a.BoolVar(&o.quiet, "no-graphics", false, "")
	a.BoolVar(&o.graphics, "graphics", false, "")
	a.BoolVar(&o.vnc, "vnc", false, "")
	a.BoolVar(&o.fullVNC, "vnc-experimental", false, "")
	dirs := a.StringArray("dir", nil, "")
	bridged := a.StringArray("net-bridged", nil, "")
	softnet := a.Bool("net-softnet", false, "")
	hostOnly := a.Bool("net-host", false, "")
	a.ignore(
		[]string{
			"serial", "no-audio", "no-clipboard", "no-trackpad", "no-keyboard", "no-pointer",
			"recovery", "nested", "suspendable", "capture-system-keys",
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
	o.ownNetwork = len(*bridged) > 0 || *softnet || *hostOnly
	if o.shares, err = parseShares(*dirs); err != nil {
		return o, a.wrong("%v", err)
	}
	return o, nil
}

// run starts a VM and lives as long as it does.
func (c *cli) run(_ context.Context, args []string) error {
	// From the first moment: a stop that arrives while the VM starts must still stop it.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGUSR2)
	o, err := c.parseRun(args)
	if err != nil {
		return err
	}
	vm, err := c.home.local(o.name)
	if err != nil {
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
	machine, err := c.power(vm, cfg, o)
	if err != nil {
		return err
	}
	defer func() { _ = machine.line.Close() }()
	c.announceVNC(o)
	return c.attend(machine, signals)
}

// lockForRun takes the VM lock under that of TART_HOME, after a MAC that another
// running VM has was replaced. The configuration is read before, see lockConfig.
func (c *cli) lockForRun(vm vmDir) (vmConfig, *os.File, error) {
	var cfg vmConfig
	storage, err := c.home.lock()
	if err != nil {
		return cfg, nil, err
	}
	defer storage.close()
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
		err = stateError(fmt.Sprintf("VM %q is already running!", vm.name()))
	}
	return cfg, lock, err
}

// machine is a VM under power.
type machine struct {
	name  string
	os    string
	guest *guestProcess
	slot  *slot     // nil for a Linux guest
	line  io.Closer // to the shared network
}

// power starts the guest. The VM shows as running already, also when this fails.
func (c *cli) power(vm vmDir, cfg vmConfig, o runOptions) (*machine, error) {
	if err := c.startFaults(vm); err != nil {
		return nil, err
	}
	if err := c.restore(vm); err != nil {
		return nil, err
	}
	m := &machine{name: vm.name(), os: cfg.OS}
	if cfg.OS == osDarwin {
		var err error
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
	return m, nil
}

func (c *cli) startFaults(vm vmDir) error {
	if err := needSession(); err != nil {
		return err
	}
	if err := c.plan.strikes(RunExitsEarly, vm.name(), errors.New(`VZErrorDomain Code=1 "The virtual machine failed to start."`)); err != nil {
		return err
	}
	if err := c.plan.strikes(RunNoSession, vm.name(), errors.New(`VZErrorDomain Code=-9 "The operation couldn't be completed." (HostKey, OSStatus -25308)`)); err != nil {
		return err
	}
	hit, err := c.plan.fires(RunLimit, vm.name())
	if err != nil || !hit {
		return err
	}
	return c.overLimit(vm)
}

// restore uses up a saved state: it is good for one start.
func (c *cli) restore(vm vmDir) error {
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

func (c *cli) guestSpec(vm vmDir, cfg vmConfig, o runOptions) (guestSpec, error) {
	noLease, err := c.plan.fires(BootNoLease, vm.name())
	if err != nil {
		return guestSpec{}, err
	}
	crash, err := c.plan.fires(BootCrash, vm.name())
	if err != nil {
		return guestSpec{}, err
	}
	hardware := etherHardware(cfg.MACAddress)
	if cfg.OS == osLinux {
		hardware = duidHardware(cfg.MACAddress)
	}
	return guestSpec{
		Name: vm.name(), Root: vm.guest(), Hardware: hardware, Shares: o.shares,
		BootDelay: time.Duration(c.plan.BootDelay), NoLease: noLease, Crash: crash,
		DHCP: dhcp{
			File: c.leaseFile, Lock: filepath.Join(c.stateDir, "dhcp.lock"),
		},
	}, nil
}

func (c *cli) announceVNC(o runOptions) {
	if o.fullVNC {
		c.printf("VNC server is running at vnc://:able-baker-charlie-delta@127.0.0.1:5900\n")
	}
	if o.vnc {
		c.printf("VNC server is running at vnc://127.0.0.1\n")
	}
}

// attend waits for the guest to end, or for a signal to end it.
func (c *cli) attend(m *machine, signals <-chan os.Signal) error {
	deaf, err := c.plan.fires(RunIgnoresStop, m.name)
	if err != nil {
		return err
	}
	for {
		select {
		case how := <-m.guest.ended:
			return c.guestEnded(m, how)
		case s := <-signals:
			switch {
			case s == syscall.SIGUSR2 && m.os == osLinux:
				m.guest.askToStop()
			case s == syscall.SIGINT && !deaf:
				c.printf("Stopping VM...\n")
				m.guest.cutPower()
				<-m.guest.ended //nolint:errcheck // however it ended, it was told to
				return nil
			}
		}
	}
}

// guestEnded reports an end the guest brought about; even a crash is a success to run.
func (c *cli) guestEnded(m *machine, how error) error {
	if how != nil {
		c.printf("guest has stopped the virtual machine due to error: %v\n", how)
		return nil
	}
	c.printf("guest has stopped the virtual machine\n")
	leaks, err := c.plan.fires(SlotLeak, m.name)
	if err != nil || !leaks || m.slot == nil {
		return err
	}
	return m.slot.leak()
}

// share is one --dir: a host directory shown in the guest.
type share struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// parseShares reads [name:]path[:ro][,tag=T]. Access and tag make no difference here.
func parseShares(dirs []string) ([]share, error) {
	var shares []share
	for _, d := range dirs {
		var s share
		rest, _, _ := strings.Cut(d, ",tag=")
		if i := strings.LastIndex(rest, ":tag="); i >= 0 {
			rest = rest[:i]
		}
		rest = strings.TrimSuffix(rest, ":ro")
		if name, path, named := strings.Cut(rest, ":"); named {
			s = share{Name: name, Path: path}
		} else {
			s = share{Path: rest}
		}
		if s.Name == "" && len(dirs) > 1 {
			return nil, errors.New("each --dir needs a name when there is more than one")
		}
		if s.Path == "" || strings.Contains(s.Name, "/") {
			return nil, fmt.Errorf("invalid --dir syntax: %s", d)
		}
		abs, err := filepath.Abs(s.Path)
		if err != nil {
			return nil, fmt.Errorf("invalid --dir path: %w", err)
		}
		shares = append(shares, share{Name: s.Name, Path: abs})
	}
	return shares, nil
}
