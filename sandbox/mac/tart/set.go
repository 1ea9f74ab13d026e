package tart

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// settings are the flags of set; zero values leave the VM as it is.
type settings struct {
	cpu, memoryMB, diskGB   int
	display, disk           string
	refit, noRefit          bool
	randomMAC, randomSerial bool
}

func (c *cli) set(_ context.Context, args []string) error {
	var s settings
	a := newArguments("set <name> [--cpu <n>] [--memory <mb>] [--display <w>x<h>] [--random-mac] [--random-serial] [--disk <path>] [--disk-size <gb>]")
	a.IntVar(&s.cpu, "cpu", 0, "")
	a.IntVar(&s.memoryMB, "memory", 0, "")
	a.IntVar(&s.diskGB, "disk-size", 0, "")
	a.StringVar(&s.display, "display", "", "")
	a.StringVar(&s.disk, "disk", "", "")
	a.BoolVar(&s.refit, "display-refit", false, "")
	a.BoolVar(&s.noRefit, "no-display-refit", false, "")
	a.BoolVar(&s.randomMAC, "random-mac", false, "")
	a.BoolVar(&s.randomSerial, "random-serial", false, "")
	words, err := a.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if s.cpu < 0 || s.memoryMB < 0 || s.diskGB < 0 {
		return a.wrong("a size cannot be negative")
	}
	vm, err := c.home.local(words[0])
	if err != nil {
		return err
	}
	cfg, err := vm.readConfig()
	if err != nil {
		return err
	}
	if s.disk != "" && vm.layout() == stacked {
		return a.wrong("--disk is not supported for VMs with a stacked disk")
	}
	if err := s.apply(&cfg); err != nil {
		return err
	}
	if err := c.saveConfig(vm, cfg); err != nil {
		return err
	}
	if s.disk != "" {
		if err := c.replaceDisk(vm, s.disk); err != nil {
			return err
		}
	}
	return vm.growDisk(s.diskGB)
}

// saveConfig writes in place, as tart does: a full disk leaves an empty file.
func (c *cli) saveConfig(vm vmDir, cfg vmConfig) error {
	if err := c.plan.strikes(SetNoSpace, vm.names(), errNoSpace); err != nil {
		return errors.Join(err, os.Truncate(vm.config(), 0))
	}
	return vm.writeConfig(cfg)
}

// apply changes the configuration. Every call without a refit flag clears the refit,
// as tart does; there is no upper bound for cores and memory.
func (s settings) apply(cfg *vmConfig) error {
	if s.cpu != 0 && s.cpu < cfg.CPUCountMin {
		return fewResources("CPU cores", cfg.CPUCountMin, s.cpu)
	}
	if s.memoryMB != 0 && int64(s.memoryMB)*mebibyte < cfg.MemorySizeMin {
		return fewResources("MB of memory", int(cfg.MemorySizeMin/mebibyte), s.memoryMB)
	}
	if s.cpu != 0 {
		cfg.CPUCount = s.cpu
	}
	if s.memoryMB != 0 {
		cfg.MemorySize = int64(s.memoryMB) * mebibyte
	}
	if s.display != "" {
		if err := cfg.Display.parse(s.display); err != nil {
			return err
		}
	}
	cfg.DisplayRefit = nil
	if s.refit || s.noRefit {
		cfg.DisplayRefit = &s.refit
	}
	if s.randomMAC {
		cfg.MACAddress = randomMAC()
	}
	if s.randomSerial {
		cfg.ECID = make([]byte, 8)
		_, _ = rand.Read(cfg.ECID) // never fails
	}
	return nil
}

func fewResources(what string, least, asked int) error {
	return runtimeError(fmt.Sprintf("LessThanMinimalResourcesError: %s: at least %d needed, %d asked for", what, least, asked))
}

var displayPattern = regexp.MustCompile(`^(\d+)x(\d+)(px|pt)?$`)

func (d *display) parse(text string) error {
	m := displayPattern.FindStringSubmatch(text)
	if m == nil {
		return usageError{message: "The value '" + text + "' is invalid for '--display'", usage: "set <name>"}
	}
	d.Width, _ = strconv.Atoi(m[1])
	d.Height, _ = strconv.Atoi(m[2])
	d.Unit = m[3]
	return nil
}

func (c *cli) replaceDisk(vm vmDir, from string) error {
	copied, release, err := c.home.newTemporary()
	if err != nil {
		return err
	}
	defer release()
	if err := copySparse(from, copied.disk()); err != nil {
		return fmt.Errorf("copying a disk: %w", err)
	}
	return os.Rename(copied.disk(), vm.disk())
}
