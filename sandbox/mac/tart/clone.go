package tart

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

func (c *cli) clone(ctx context.Context, args []string) error {
	a := newArguments("clone <source-name> <new-name> [--insecure] [--concurrency <n>] [--prune-limit <n>]")
	a.ignore([]string{"insecure", "deduplicate", "stacked"}, []string{"concurrency", "prune-limit"})
	overwrite := a.Bool("overwrite", false, "")
	words, err := a.parse(args, 2, 2)
	if err != nil {
		return err
	}
	if strings.Contains(words[1], "/") {
		return a.wrong("<new-name> should be a local name")
	}
	source, err := c.source(ctx, words[0])
	if err != nil {
		return err
	}
	copied, release, err := c.home.newTemporary()
	if err != nil {
		return err
	}
	defer release()
	lock, err := c.home.lock()
	if err != nil {
		return err
	}
	defer lock.close()
	origin := words[0] + "\n" + source.origin()
	if err := c.copyVM(ctx, source, copied, words[1]+"\n"+origin); err != nil {
		return err
	}
	if err := copied.comesFrom(origin); err != nil {
		return err
	}
	if c.plan.RefuseReplace && !*overwrite && exists(filepath.Join(c.home.vms(), words[1])) {
		return runtimeError(fmt.Sprintf("VM %q already exists, use --overwrite to replace it", words[1]))
	}
	return c.placeVM(copied, words[1])
}

// source finds what to clone, pulling an image that is not cached.
func (c *cli) source(ctx context.Context, name string) (vmDir, error) {
	ref, remote := parseReference(name)
	if !remote {
		return c.home.local(name)
	}
	dir := c.home.dir(ref)
	if !c.home.whole(dir) {
		if err := (images{c}).fetch(ctx, ref); err != nil {
			return "", err
		}
	}
	dir.touch()
	return dir, nil
}

func (c *cli) copyVM(ctx context.Context, source, to vmDir, names string) error {
	if err := c.plan.strikes(CloneNoSpace, names, errNoCopySpace); err != nil {
		return err
	}
	if err := pause(ctx, time.Duration(c.plan.CloneDelay)); err != nil {
		return err
	}
	cfg, err := source.readConfig()
	if err != nil {
		return err
	}
	if err := source.copyTo(to, c.plan.CopyBytes); err != nil {
		return err
	}
	if source.layout() == stackedRecord {
		if err := c.home.stackOn(source, to); err != nil {
			return err
		}
	}
	// Only a MAC that a local VM has already is replaced, and never that of a
	// suspended source: the first clone of an image keeps the image's own.
	taken, err := c.home.anyLocal(func(vm vmDir) bool { return vm.mac() == cfg.MACAddress })
	if err != nil || !taken || source.state() == "suspended" {
		return err
	}
	if kept, err := c.plan.fires(DuplicateMAC, names); err != nil || kept {
		return err
	}
	return to.renewMAC()
}

// mac is the VM's address, empty when its configuration cannot be read.
func (vm vmDir) mac() string {
	cfg, err := vm.readConfig()
	if err != nil {
		return ""
	}
	return cfg.MACAddress
}

func (h home) anyLocal(is func(vmDir) bool) (bool, error) {
	vms, err := h.locals()
	if err != nil {
		return false, err
	}
	for _, vm := range vms {
		if is(vm) {
			return true, nil
		}
	}
	return false, nil
}

// placeVM gives a VM its name, whoever has it.
func (c *cli) placeVM(from vmDir, name string) error {
	to := filepath.Join(c.home.vms(), name)
	if vmDir(to).holder() != 0 {
		c.journal.note(EventReplaced, name)
	}
	return c.home.place(from, to)
}

func (c *cli) rename(_ context.Context, args []string) error {
	a := newArguments("rename <name> <new-name>")
	words, err := a.parse(args, 2, 2)
	if err != nil {
		return err
	}
	if strings.Contains(words[1], "/") {
		return a.wrong("<new-name> should be a local name")
	}
	from, err := c.home.local(words[0])
	if err != nil {
		return a.wrong("failed to rename a non-existent VM: %s", words[0])
	}
	if _, err := c.home.local(words[1]); err == nil {
		return a.wrong("failed to rename VM %s, target VM %s already exists", words[0], words[1])
	}
	lock, err := c.home.lock()
	if err != nil {
		return err
	}
	defer lock.close()
	return c.placeVM(from, words[1])
}
