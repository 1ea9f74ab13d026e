package pod

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// fakeCommand is a command in a guest. Its records outlive its shim.
type fakeCommand struct {
	run   shim.GuestRun
	begun time.Time
	end   *shim.CommandEnd
	done  chan struct{} // closed with the end
	cut   chan struct{} // closed when the shim goes without one
}

// fakeGuests are the commands of all attempts. Those of setup and init containers succeed at
// once, unless codes say otherwise; others go on until they are told to exit.
type fakeGuests struct {
	commands map[string]*fakeCommand // by directory and ID
	codes    map[string]int
	// missing are those, by ID, that the guest cannot start.
	missing map[string]bool
	// hold, when set, lets the named command go on until it is told to exit.
	hold    map[string]bool
	noAgent bool
	// refused are used up one by one, by Run.
	refused []error
	// stubborn commands go on when they are told to end. signals counts what they are told.
	stubborn bool
	signals  int
	// deaf are those, by ID, that go on though others end.
	deaf map[string]bool
	// signalErrs are used up one by one.
	signalErrs []error
	// leave is what commands print, by their ID.
	leave map[string][]string
	// boots: the agents do not answer yet.
	boots bool
}

func (h *fakeHost) Run(_ context.Context, dir string, r shim.GuestRun) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.alive(dir) {
		return shim.ErrNoShim
	}
	if err := pop(&h.guests.refused); err != nil {
		return err
	}
	if c := h.command(dir, r.ID); c != nil && (c.end == nil || c.end.Outcome != shim.Unreachable) {
		return nil
	}
	c := &fakeCommand{run: r, done: make(chan struct{}), cut: make(chan struct{})}
	h.guests.commands[filepath.Join(dir, r.ID)] = c
	if h.guests.noAgent {
		c.ends(shim.CommandEnd{ID: r.ID, Ended: h.now(), Outcome: shim.Unreachable})
		return nil
	}
	if h.guests.boots {
		return nil
	}
	c.begun = h.now()
	switch {
	case strings.HasPrefix(r.ID, state.MessageID("")):
		h.leaves(dir, r)
	case r.ID != state.AnswerID:
		h.note("exec %s %s", h.run(dir).name, r.ID)
	}
	if h.guests.missing[r.ID] {
		c.ends(shim.CommandEnd{ID: r.ID, Begun: c.begun, Ended: h.now(), Outcome: shim.NotExecuted, Message: "no such file"})
		return nil
	}
	if !h.guests.goesOn(r.ID) {
		c.ends(shim.CommandEnd{ID: r.ID, Begun: c.begun, Ended: h.now(), Outcome: shim.Exited, Code: h.guests.codes[r.ID]})
	}
	return nil
}

// goesOn: a command that is not held back and is none of a container ends at once.
func (g *fakeGuests) goesOn(id string) bool {
	first, _, _ := strings.Cut(id, "-r")
	return first == state.MainID || strings.HasPrefix(first, "c-") || g.hold[first]
}

// leaves writes the message of a command where its log would be.
func (h *fakeHost) leaves(dir string, r shim.GuestRun) {
	for _, line := range h.guests.leave[r.ID] {
		_ = os.WriteFile(filepath.Join(dir, r.Log), []byte("2026-01-01T00:00:00Z stdout F "+line+"\n"), 0o600)
	}
}

// Signal ends the command as one that has no handler.
func (h *fakeHost) Signal(ctx context.Context, dir, id string, sig syscall.Signal) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // nobody is asked any more
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := pop(&h.guests.signalErrs); err != nil {
		return err
	}
	h.guests.signals++
	c := h.command(dir, id)
	if c == nil || !h.alive(dir) {
		return shim.ErrNoShim
	}
	h.note("signal %s %s %s", h.run(dir).name, id, sig)
	if !h.guests.stubborn && !h.guests.deaf[id] || sig == syscall.SIGKILL {
		c.ends(shim.CommandEnd{ID: id, Begun: c.begun, Ended: h.now(), Outcome: shim.Exited, Code: 128 + int(sig)})
	}
	return nil
}

func (c *fakeCommand) ends(e shim.CommandEnd) {
	if c.end == nil {
		c.end = &e
		close(c.done)
	}
}

func (h *fakeHost) Await(ctx context.Context, dir, id string) (*shim.CommandEnd, error) {
	h.mu.Lock()
	c := h.command(dir, id)
	h.mu.Unlock()
	if c == nil {
		return nil, &shim.RefusedError{Code: shim.RefusedUnknown}
	}
	select {
	case <-c.done:
		return c.end, nil
	case <-c.cut:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *fakeHost) Command(dir, id string) (bool, *shim.CommandEnd, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.command(dir, id)
	if c == nil {
		return false, nil, nil
	}
	return !c.begun.IsZero(), c.end, nil
}

func (h *fakeHost) Begun(dir, id string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.command(dir, id); c != nil {
		return c.begun
	}
	return time.Time{}
}

// exit ends a command of any machine that runs.
func (h *fakeHost) exit(id string, e shim.CommandEnd) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.guests.commands {
		if c.run.ID == id && c.end == nil {
			e.ID, e.Begun, e.Ended = id, c.begun, h.now()
			c.ends(e)
		}
	}
}

// cutOff is what becomes of commands whose shim goes: an end, if it has time for one.
func (h *fakeHost) cutOff(dir string, written bool) {
	for key, c := range h.guests.commands {
		if filepath.Dir(key) != dir || c.end != nil {
			continue
		}
		if written {
			c.ends(shim.CommandEnd{ID: c.run.ID, Begun: c.begun, Ended: h.now(), Outcome: shim.Lost, Message: "the connection broke"})
		} else {
			close(c.cut)
		}
	}
}

func (h *fakeHost) given(id string) *shim.GuestRun {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.guests.commands {
		if c.run.ID == id {
			return &c.run
		}
	}
	return nil
}

// fakeInputs gives what a test says.
type fakeInputs struct {
	mu      sync.Mutex
	errs    []error
	setup   string
	shares  []vm.Share
	held    map[types.UID]bool
	kept    map[types.UID]bool
	changed chan struct{}
	refresh int
	// refreshErr is what Refresh fails with; what it renews is due after refreshIn, unless zero.
	refreshErr error
	refreshIn  time.Duration
	// resolved counts environments that were made without volumes.
	resolved int
	// unresolved, when set, is why none can be made.
	unresolved error
	due        time.Time
	full       string
	report     *int32
	tears      []error
	// pullSecrets are those of the Pod that there are.
	pullSecrets []corev1.Secret
}

func newFakeInputs() *fakeInputs {
	return &fakeInputs{held: map[types.UID]bool{}, kept: map[types.UID]bool{}, changed: make(chan struct{})}
}

func (f *fakeInputs) Hold(p *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[p.UID] = true
}

func (f *fakeInputs) Drop(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, uid)
}

func (f *fakeInputs) Changed(types.UID) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

func (f *fakeInputs) change() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeInputs) PullSecrets(context.Context, *corev1.Pod) ([]corev1.Secret, error) {
	return f.pullSecrets, nil
}

func (f *fakeInputs) Prepare(_ context.Context, p *corev1.Pod) (Prepared, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := pop(&f.errs); err != nil {
		return Prepared{}, err
	}
	f.kept[p.UID] = true
	return Prepared{Shares: f.shares, Setup: f.setup, Commands: f.commands(p), RefreshAt: f.due}, nil
}

func (f *fakeInputs) commands(p *corev1.Pod) map[string]vm.GuestCommand {
	commands := map[string]vm.GuestCommand{}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		commands[c.Name] = vm.GuestCommand{Argv: slices.Concat(c.Command, c.Args), Env: []string{"NAME=" + c.Name}, Dir: c.WorkingDir}
	}
	return commands
}

func (f *fakeInputs) Command(_ context.Context, p *corev1.Pod, container string) (vm.GuestCommand, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resolved++
	return f.commands(p)[container], f.unresolved
}

func (f *fakeInputs) Refresh(context.Context, *corev1.Pod) (time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh++
	if f.refreshIn == 0 {
		return time.Time{}, f.refreshErr
	}
	return time.Now().Add(f.refreshIn), f.refreshErr
}

func (f *fakeInputs) ExitReport(types.UID) (int32, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.report == nil {
		return 0, false
	}
	return *f.report, true
}

func (f *fakeInputs) ClearReport(types.UID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report = nil
	return nil
}

func (f *fakeInputs) Overfull(*corev1.Pod) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.full
}

func (f *fakeInputs) TearDown(uid types.UID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := pop(&f.tears); err != nil {
		return err
	}
	delete(f.kept, uid)
	return nil
}

func (f *fakeInputs) UIDs() ([]types.UID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var uids []types.UID
	for uid := range f.kept {
		uids = append(uids, uid)
	}
	return uids, nil
}

func (f *fakeInputs) refreshed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refresh
}

func (f *fakeInputs) left() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("held %d, kept %d", len(f.held), len(f.kept))
}
