// Package vmusage reads what VMs and their host use, from the processes of the host: a
// guest need not help. It reads when it is asked, and remembers for a few seconds.
// What is made of the figures is left to package server.
package vmusage

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/hostos"
)

// keep is how long figures are good, as those of a kubelet.
const keep = 10 * time.Second

// virtualization is the process in which macOS runs a guest: it has the guest's memory
// and the time of its processors, and is no child of who asked for it.
const virtualization = "com.apple.Virtualization.VirtualMachine"

// VM is one that runs.
type VM struct {
	// Name that its figures are found by.
	Name string
	// Shim is the process whose descendants run it.
	Shim int
	// Dir has its disk: the process that holds a file below it runs the guest.
	Dir string
}

// Figures are what something has used.
type Figures struct {
	// CPU time since it began.
	CPU time.Duration
	// MemoryBytes in use.
	MemoryBytes int64
	// Cores in use on average since the reading before; negative: there was none.
	Cores float64
}

// Reading is what was read at one time.
type Reading struct {
	At   time.Time
	Host Figures
	VMs  map[string]Figures
}

// Reader reads. Its methods may be called at the same time.
type Reader struct {
	runner hostos.Runner
	vms    func(context.Context) []VM
	clock  clock.PassiveClock

	// turn is held by who reads; others wait for as long as they like.
	turn chan struct{}
	last Reading
	// host and used are the CPU time of all processes, and of those of each VM.
	host counter
	used map[VM]counter
	// guests are the VMs of virtualization processes.
	guests map[int]string
}

// NewReader returns a reader of the VMs that vms lists.
func NewReader(runner hostos.Runner, vms func(context.Context) []VM, c clock.PassiveClock) *Reader {
	return &Reader{runner: runner, vms: vms, clock: c, turn: make(chan struct{}, 1), guests: map[int]string{}}
}

// Read returns figures that are ten seconds old at most.
func (r *Reader) Read(ctx context.Context) (Reading, error) {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return Reading{}, fmt.Errorf("waiting for a reading that is under way: %w", context.Cause(ctx))
	}
	defer func() { <-r.turn }()
	now := r.clock.Now()
	if !r.last.At.IsZero() && now.Sub(r.last.At) < keep {
		return r.last, nil
	}
	processes, err := hostos.ReadProcesses(ctx, r.runner)
	if err != nil {
		return Reading{}, err
	}
	memory, err := hostos.ReadMemoryInUse(ctx, r.runner)
	if err != nil {
		return Reading{}, err
	}
	vms := r.vms(ctx)
	r.findGuests(ctx, processes, vms)
	next := Reading{At: now, Host: r.host.add(processes), VMs: map[string]Figures{}}
	next.Host.MemoryBytes = memory
	used := map[VM]counter{}
	for _, vm := range vms {
		c := r.used[vm]
		next.VMs[vm.Name] = c.add(r.of(vm, processes))
		used[vm] = c
	}
	r.used = used
	r.last = next.since(r.last)
	return r.last, nil
}

// counter is the CPU time of processes that come and go.
type counter struct {
	// ended is that of processes that were seen and are no more, seen that of the others:
	// together they never grow less.
	ended time.Duration
	seen  map[int]time.Duration
}

// add takes what runs now, and returns what all that ever ran has used of the CPU, and
// the memory of what runs.
func (c *counter) add(processes []hostos.Process) Figures {
	now := map[int]time.Duration{}
	var f Figures
	for _, p := range processes {
		now[p.PID] = p.CPU
		f.CPU += p.CPU
		f.MemoryBytes += p.ResidentBytes
	}
	for pid, used := range c.seen {
		// Less than before: another process has its number.
		if current, lives := now[pid]; !lives || current < used {
			c.ended += used
		}
	}
	c.seen = now
	f.CPU += c.ended
	return f
}

// of picks the processes of one VM.
func (r *Reader) of(vm VM, processes []hostos.Process) []hostos.Process {
	var its []hostos.Process
	family := map[int]bool{vm.Shim: true}
	// Parents may come after their children.
	for grown := true; grown; {
		grown = false
		for _, p := range processes {
			if family[p.Parent] && !family[p.PID] {
				family[p.PID], grown = true, true
			}
		}
	}
	for _, p := range processes {
		if vm.Shim > 0 && family[p.PID] || r.guests[p.PID] == vm.Name {
			its = append(its, p)
		}
	}
	return its
}

// findGuests finds out whose the virtualization processes are, once for each.
func (r *Reader) findGuests(ctx context.Context, processes []hostos.Process, vms []VM) {
	known := r.guests
	r.guests = map[int]string{}
	var strange []int
	for _, p := range processes {
		if filepath.Base(p.Name) != virtualization {
			continue
		}
		if name, found := known[p.PID]; found {
			r.guests[p.PID] = name
		} else {
			strange = append(strange, p.PID)
		}
	}
	if len(strange) == 0 {
		return
	}
	// It fails where it may not look at some process, and tells of the others.
	out, _ := r.runner.Run(ctx, "lsof", "-n", "-P", "-F", "pn", "-c", "com.apple.Virtu")
	for pid, files := range filesOf(out) {
		for _, vm := range vms {
			if holdsBelow(files, vm.Dir) {
				r.guests[pid] = vm.Name
			}
		}
	}
	r.lastOne(strange, vms)
}

// lastOne gives the only process that is left to the only VM that has none.
func (r *Reader) lastOne(strange []int, vms []VM) {
	taken := map[string]bool{}
	for _, name := range r.guests {
		taken[name] = true
	}
	var free []string
	for _, vm := range vms {
		if !taken[vm.Name] {
			free = append(free, vm.Name)
		}
	}
	if len(strange) == 1 && len(free) == 1 && r.guests[strange[0]] == "" {
		r.guests[strange[0]] = free[0]
	}
}

// filesOf reads what lsof prints: a line p<pid>, then lines n<file>.
func filesOf(out string) map[int][]string {
	files := map[int][]string{}
	pid := 0
	for l := range strings.Lines(out) {
		l = strings.TrimSuffix(l, "\n")
		switch {
		case strings.HasPrefix(l, "p"):
			pid = number(l[1:])
		case strings.HasPrefix(l, "n"):
			files[pid] = append(files[pid], l[1:])
		}
	}
	return files
}

func holdsBelow(files []string, dir string) bool {
	for _, file := range files {
		if dir != "" && strings.HasPrefix(file, dir+"/") {
			return true
		}
	}
	return false
}

// since compares with the reading before.
func (r Reading) since(before Reading) Reading {
	elapsed := r.At.Sub(before.At)
	if before.At.IsZero() || elapsed <= 0 {
		elapsed = 0
	}
	r.Host.Cores = cores(r.Host.CPU, before.Host.CPU, elapsed)
	for name, f := range r.VMs {
		old, found := before.VMs[name]
		if !found {
			f.Cores = -1
		} else {
			f.Cores = cores(f.CPU, old.CPU, elapsed)
		}
		r.VMs[name] = f
	}
	return r
}

func cores(now, before, elapsed time.Duration) float64 {
	if elapsed == 0 || now < before {
		return -1
	}
	return float64(now-before) / float64(elapsed)
}
