package pod

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// fakeHost is a host in memory: a driver, and the processes that it runs.
type fakeHost struct {
	now func() time.Time

	mu       sync.Mutex
	lists    int
	machines map[string]bool // name → running
	runs     map[string]*fakeRun
	images   map[string]string
	log      []string
	when     map[string]time.Time // of the first such line

	// pullErrs, createErrs and runEnds are used up one by one; runEnds end a run
	// before its lock is held.
	pullErrs   []error
	createErrs []error
	deleteErrs []error
	runEnds    []vm.RunEnd
	// refusals are used up one by one: macOS refuses a VM that holds its lock already, once
	// somebody has looked.
	refusals []vm.RunEnd
	// pullGate, when set, holds pulls until it is closed.
	pullGate chan struct{}
	pulls    int
	most     int // machines that ran at once
	guests   fakeGuests
	execs    fakeExecs
	graces   []time.Duration
	// stopGate, when set, holds graceful stops until it is closed.
	stopGate chan struct{}
	// lockless machines never get to their lock, and their commands run on.
	lockless bool
	// shimless: shims go before they write anything.
	shimless bool
	// shares of each start.
	shares [][]vm.Share
	// starting is called once, right before a machine starts.
	starting func()
	// memory of each VM that was made, and the least that images need.
	memory      []int64
	leastMemory int64
	// refused are used up one by one, by RunCommand.
	refused []error
	// late: the next machine that is to be deleted begins to run just before.
	late bool
	// vms, when set, is where each clone has a file of 8 KiB.
	vms string
}

type fakeRun struct {
	name string
	gone chan struct{}
	exit *shim.Exit
}

func newFakeHost(now func() time.Time) *fakeHost {
	return &fakeHost{
		now: now, when: map[string]time.Time{}, machines: map[string]bool{}, runs: map[string]*fakeRun{}, images: map[string]string{},
		guests: fakeGuests{commands: map[string]*fakeCommand{}, codes: map[string]int{}, hold: map[string]bool{}},
	}
}

func (h *fakeHost) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	h.log = append(h.log, line)
	if _, again := h.when[line]; !again {
		h.when[line] = h.now()
	}
}

// between is the time from one line of the history to another.
func (h *fakeHost) between(from, to string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.when[to].Sub(h.when[from])
}

func (h *fakeHost) Probe(context.Context) (vm.Info, error) {
	return vm.Info{Name: "tart", Version: "2.32.1"}, nil
}

func (h *fakeHost) Images(context.Context) ([]vm.Image, error) { return nil, nil }

func (h *fakeHost) Digest(_ context.Context, ref string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.images[ref]; d != "" {
		return d, nil
	}
	return "", vm.ErrNotFound
}

func (h *fakeHost) Pull(ctx context.Context, ref string, _ vm.PullOptions) (string, error) {
	h.mu.Lock()
	h.pulls++
	gate := h.pullGate
	h.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := pop(&h.pullErrs); err != nil {
		return "", err
	}
	h.images[ref] = "sha256:" + strings.Repeat("a", 64)
	return h.images[ref], nil
}

func (h *fakeHost) Create(_ context.Context, name, _ string, shape vm.Shape) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := pop(&h.createErrs); err != nil {
		return err
	}
	if _, there := h.machines[name]; there {
		return vm.ErrExists
	}
	if h.vms != "" {
		if err := errors.Join(os.Mkdir(filepath.Join(h.vms, name), 0o700), os.WriteFile(filepath.Join(h.vms, name, "disk.img"), make([]byte, 8<<10), 0o600)); err != nil {
			return err
		}
	}
	h.machines[name] = false
	h.memory = append(h.memory, shape.MemoryBytes)
	h.note("create %s", name)
	return nil
}

func (h *fakeHost) RunCommand(name string, o vm.RunOptions) (vm.Command, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := pop(&h.refused); err != nil {
		return vm.Command{}, err
	}
	h.shares = append(h.shares, o.Shares)
	if h.starting != nil {
		h.starting()
		h.starting = nil
	}
	return vm.Command{Path: name}, nil
}

// listed is how often all machines were asked for.
func (h *fakeHost) listed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lists
}

func (h *fakeHost) Machines(context.Context) ([]vm.Machine, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lists++
	var list []vm.Machine
	for name, running := range h.machines {
		list = append(list, vm.Machine{Name: name, Running: running, MacOS: true})
	}
	return list, nil
}

func (h *fakeHost) Machine(_ context.Context, name string) (vm.Machine, error) {
	h.mu.Lock()
	running, there := h.machines[name]
	refused := running && len(h.refusals) > 0
	var end vm.RunEnd
	if refused {
		end, h.refusals = h.refusals[0], h.refusals[1:]
	}
	h.mu.Unlock()
	if !there {
		return vm.Machine{}, vm.ErrNotFound
	}
	if refused {
		h.end(name, end, "refuse")
	}
	return vm.Machine{Name: name, Running: running, Powered: running && !refused, MacOS: true}, nil
}

func (h *fakeHost) RemoveImage(context.Context, string) error { return nil }

func (h *fakeHost) RemoveLeftovers() {}

func (h *fakeHost) LeastMemory(context.Context, string) (int64, error) { return h.leastMemory, nil }

func (h *fakeHost) GuestSocket(name string) string { return filepath.Join(h.vms, name, "control.sock") }

func (h *fakeHost) Wait(ctx context.Context, name string) error {
	for {
		if m, err := h.Machine(ctx, name); err != nil || !m.Running {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
}

func (h *fakeHost) Stop(ctx context.Context, name string, grace time.Duration) error {
	h.mu.Lock()
	h.graces = append(h.graces, grace)
	gate := h.stopGate
	h.mu.Unlock()
	if gate != nil && grace > 5*time.Second {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	h.end(name, vm.RunEnd{Tail: "Stopping VM...\n"}, "stop")
	return nil
}

func (h *fakeHost) Delete(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.late {
		h.late, h.machines[name] = false, true
	}
	if h.machines[name] {
		return vm.ErrRunning
	}
	if err := pop(&h.deleteErrs); err != nil {
		return err
	}
	if _, there := h.machines[name]; there {
		delete(h.machines, name)
		h.note("delete %s", name)
	}
	return nil
}

func (h *fakeHost) Classify(e vm.RunEnd) vm.Outcome {
	switch {
	case e.Signal != 0:
		return vm.Outcome{Kind: vm.Killed}
	case e.Code == 0 && strings.Contains(e.Tail, "error"):
		return vm.Outcome{Kind: vm.Crashed, Message: e.Tail}
	case e.Code == 0 && strings.Contains(e.Tail, "Stopping"):
		return vm.Outcome{Kind: vm.Stopped}
	case strings.Contains(e.Tail, "limit"):
		return vm.Outcome{Kind: vm.Limited, Message: e.Tail}
	case e.Code != 0:
		return vm.Outcome{Kind: vm.NotStarted, Message: e.Tail, NoSession: strings.Contains(e.Tail, "-25308")}
	}
	return vm.Outcome{Kind: vm.ShutDown}
}

// Start starts a shim and its machine in a directory, which it makes.
func (h *fakeHost) Start(dir string, spec shim.Spec) error {
	c := spec.Run
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run(dir) // which forgets what is removed
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("a shim takes no directory that was used: %w", err)
	}
	if h.shimless {
		return nil
	}
	r := &fakeRun{name: c.Path, gone: make(chan struct{})}
	h.runs[dir] = r
	h.note("run %s", c.Path)
	if len(h.runEnds) > 0 {
		e := h.runEnds[0]
		h.runEnds = h.runEnds[1:]
		r.finish(e, h.now())
		return nil
	}
	h.machines[c.Path] = !h.lockless
	running := 0
	for _, on := range h.machines {
		if on {
			running++
		}
	}
	h.most = max(h.most, running)
	return nil
}

func (r *fakeRun) finish(e vm.RunEnd, now time.Time) {
	r.exit = &shim.Exit{Code: e.Code, Signal: e.Signal, Tail: e.Tail, Started: now, Ended: now}
	close(r.gone)
}

// run is what runs or ran in a directory. Its records go with it.
func (h *fakeHost) run(dir string) *fakeRun {
	if _, err := os.Stat(dir); err != nil {
		delete(h.runs, dir)
		maps.DeleteFunc(h.guests.commands, func(key string, _ *fakeCommand) bool { return filepath.Dir(key) == dir })
	}
	return h.runs[dir]
}

// command is one of those that a shim began.
func (h *fakeHost) command(dir, id string) *fakeCommand {
	h.run(dir)
	return h.guests.commands[filepath.Join(dir, id)]
}

func (h *fakeHost) alive(dir string) bool {
	r := h.run(dir)
	if r == nil {
		return false
	}
	select {
	case <-r.gone:
		return false
	default:
		return true
	}
}

func (h *fakeHost) Alive(dir string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.alive(dir), nil
}

func (h *fakeHost) Gone(dir string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	gone := make(chan struct{})
	go func(r *fakeRun) {
		defer close(gone)
		if r != nil {
			<-r.gone
		}
	}(h.run(dir))
	return gone
}

func (h *fakeHost) Started(dir string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.run(dir) != nil, nil
}

func (h *fakeHost) Exit(dir string) (*shim.Exit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.run(dir); r != nil {
		return r.exit, nil
	}
	return nil, nil
}

func (h *fakeHost) Kill(dir string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.run(dir); r != nil && h.alive(dir) {
		h.note("kill %s", r.name)
		h.machines[r.name] = false
		h.cutOff(dir, true)
		r.finish(vm.RunEnd{Code: -1, Signal: 15}, h.now())
	}
	return nil
}

// end ends the run of a machine, if it runs.
func (h *fakeHost) end(name string, e vm.RunEnd, word string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.machines[name] {
		return
	}
	h.machines[name] = false
	h.note("%s %s", word, name)
	for dir, r := range h.runs {
		if r.name == name && h.alive(dir) {
			h.cutOff(dir, true)
			r.finish(e, h.now())
		}
	}
}

// vanish ends all machines with their shims, and nobody writes anything down.
func (h *fakeHost) vanish() {
	h.orphan()
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.machines {
		h.machines[name] = false
	}
}

// orphan kills all shims and leaves the machines as they are.
func (h *fakeHost) orphan() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for dir, r := range h.runs {
		if h.alive(dir) {
			h.cutOff(dir, false)
			close(r.gone)
		}
	}
}

func (h *fakeHost) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for name := range h.machines {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (h *fakeHost) history() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.log)
}

func (h *fakeHost) count(prefix string) int {
	n := 0
	for _, l := range h.history() {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

func pop(errs *[]error) error {
	if len(*errs) == 0 {
		return nil
	}
	err := (*errs)[0]
	*errs = (*errs)[1:]
	return err
}
