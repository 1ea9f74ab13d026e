package tart

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// prunable is what prune may remove.
type prunable struct {
	dir       vmDir
	accessed  time.Time
	allocated int64
}

// prune removes images, or VMs that do not run, the least recently accessed first: all
// that were not accessed for some days, and as many as are needed to get below a
// budget.
func (c *cli) prune(_ context.Context, args []string) error {
	a := newArguments("prune [--entries <entries>] [--older-than <days>] [--space-budget <gb>]")
	entries := a.String("entries", "caches", "")
	days := a.Uint("older-than", 0, "")
	budget := a.Uint("space-budget", 0, "")
	cacheBudget := a.Uint("cache-budget", 0, "")
	gc := a.Bool("gc", false, "")
	if _, err := a.parse(args, 0, 0); err != nil {
		return err
	}
	given := a.Changed("older-than") || a.Changed("space-budget") || a.Changed("cache-budget")
	if *entries != "caches" && *entries != "vms" {
		return a.wrong("The value '%s' is invalid for '--entries <entries>'", *entries)
	}
	if !given && !*gc {
		return a.wrong("at least one pruning criteria must be specified")
	}
	if *gc {
		if err := c.home.collectImages(); err != nil {
			return err
		}
	}
	found, err := c.prunables(*entries)
	if err != nil {
		return err
	}
	if a.Changed("older-than") {
		limit := c.now().Add(-time.Duration(*days) * 24 * time.Hour)
		found, err = removeWhile(found, func(p prunable) bool { return p.accessed.Before(limit) })
	}
	if err == nil && (a.Changed("space-budget") || a.Changed("cache-budget")) {
		err = shrink(found, int64(max(*budget, *cacheBudget))*1_000_000_000)
	}
	if err != nil {
		return err
	}
	return c.home.collectImages()
}

// prunables are sorted, least recently accessed first.
func (c *cli) prunables(entries string) ([]prunable, error) {
	var dirs []vmDir
	if entries == "vms" {
		vms, err := c.home.locals()
		if err != nil {
			return nil, err
		}
		dirs = slices.DeleteFunc(vms, func(vm vmDir) bool { return vm.holder() != 0 })
	} else {
		images, err := c.home.cached()
		if err != nil {
			return nil, err
		}
		for _, i := range images {
			if !i.tag {
				dirs = append(dirs, i.dir)
			}
		}
	}
	var found []prunable
	for _, dir := range dirs {
		_, allocated := dir.sizes()
		found = append(found, prunable{dir, dir.accessed(), allocated})
	}
	slices.SortFunc(found, func(a, b prunable) int { return a.accessed.Compare(b.accessed) })
	return found, nil
}

// removeWhile removes what is due from the front and returns the rest.
func removeWhile(found []prunable, due func(prunable) bool) ([]prunable, error) {
	for len(found) > 0 && due(found[0]) {
		if err := os.RemoveAll(string(found[0].dir)); err != nil {
			return found, fmt.Errorf("pruning: %w", err)
		}
		found = found[1:]
	}
	return found, nil
}

// shrink keeps what was accessed last, as long as it fits.
func shrink(found []prunable, budget int64) error {
	for _, p := range slices.Backward(found) {
		if p.allocated <= budget {
			budget -= p.allocated
			continue
		}
		if err := os.RemoveAll(string(p.dir)); err != nil {
			return fmt.Errorf("pruning: %w", err)
		}
	}
	return nil
}
