package tart

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

// stopPoll is how often tart stop looks whether the VM has ended.
const stopPoll = 100 * time.Millisecond

func (c *cli) stop(ctx context.Context, args []string) error {
	a := newArguments("stop <name> [--timeout <seconds>]")
	seconds := a.Uint64P("timeout", "t", 30, "")
	words, err := a.parse(args, 1, 1)
	if err != nil {
		return err
	}
	vm, err := c.home.local(words[0])
	if err != nil {
		return err
	}
	switch vm.state() {
	case "suspended":
		return os.Remove(vm.saved())
	case "running":
		return stopRunning(ctx, vm, time.Duration(*seconds)*time.Second)
	}
	return notRunning(words[0])
}

// stopRunning interrupts `run`, which powers the guest off, and kills it when it is
// still there after the timeout.
func stopRunning(ctx context.Context, vm vmDir, timeout time.Duration) error {
	pid := vm.holder()
	if pid == 0 {
		return notRunning(vm.name())
	}
	_ = syscall.Kill(pid, syscall.SIGINT) // it may have ended just now
	for waited := time.Duration(0); waited < timeout; waited += stopPoll {
		if pid = vm.holder(); pid == 0 {
			return nil
		}
		if err := pause(ctx, stopPoll); err != nil {
			return err
		}
	}
	if pid = vm.holder(); pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return runtimeError(fmt.Sprintf("failed to forcefully terminate the VM %q: %v", vm.name(), err))
	}
	return nil
}

// delete removes local VMs and cached images one after the other, and stops at the
// first that cannot be removed.
func (c *cli) delete(_ context.Context, args []string) error {
	words, err := newArguments("delete <name> ...").parse(args, 1, -1)
	if err != nil {
		return err
	}
	for _, name := range words {
		if ref, remote := parseReference(name); remote {
			err = c.deleteImage(name, ref)
		} else {
			err = c.deleteLocal(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *cli) deleteLocal(name string) error {
	vm, err := c.home.local(name)
	if err != nil {
		return err
	}
	if vm.holder() != 0 {
		return runtimeError(fmt.Sprintf("VM %q is running", name))
	}
	layers := vm.layout() == stacked
	if layers { // tart opens its content store first
		if err := c.plan.strikes(DeleteNoSpace, vm.names(), errNoSpace); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(string(vm)); err != nil || !layers {
		return err
	}
	return c.home.collectContent()
}

func (c *cli) deleteImage(name string, ref reference) error {
	dir := c.home.dir(ref)
	if _, err := os.Lstat(string(dir)); err != nil {
		return doesNotExist(name)
	}
	if err := os.RemoveAll(string(dir)); err != nil { // of a tag: the link alone
		return fmt.Errorf("deleting an image: %w", err)
	}
	return c.home.collectImages()
}
