package mac

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// running is one boot of a Mac, seen from outside: its first process and the
// socket shared with it.
type running struct {
	m       *Mac
	control net.Conn
	kill    func()
	exited  chan struct{} // closed when nothing of this boot is left
	ready   chan error    // one answer
	wishes  chan wire.EventKind

	mu      sync.Mutex
	seq     int
	waiting map[int]chan wire.Event
}

// startRunning starts pid 1 and waits until the Mac is up. When that fails or
// ctx ends first, nothing is left running.
func startRunning(ctx context.Context, m *Mac, c wire.Config) (*running, error) {
	r := &running{
		m: m, exited: make(chan struct{}), ready: make(chan error, 1),
		wishes: make(chan wire.EventKind, 1), waiting: map[int]chan wire.Event{},
	}
	if err := r.launch(filepath.Join(m.o.Programs, wire.Binary)); err != nil {
		return nil, err
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		r.listen()
	}()
	err := json.NewEncoder(r.control).Encode(c)
	if err == nil {
		select {
		case err = <-r.ready:
		case <-heard:
			select {
			case err = <-r.ready:
			default:
				err = errGone
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		r.kill()
		<-r.exited
		return nil, err
	}
	return r, nil
}

// listen takes pid 1's events until it ends.
func (r *running) listen() {
	defer r.control.Close()
	events := json.NewDecoder(bufio.NewReader(r.control))
	for {
		var e wire.Event
		if err := events.Decode(&e); err != nil {
			r.releaseAll()
			return
		}
		r.take(e)
	}
}

func (r *running) take(e wire.Event) {
	switch e.Kind {
	case wire.EventReady:
		r.ready <- nil
	case wire.EventFailed:
		r.ready <- bootError(e)
	case wire.EventExecuted:
		if e.Execution != nil {
			r.m.record.executed(*e.Execution)
		}
	case wire.EventVerified:
		r.m.record.verified()
	case wire.EventReboot, wire.EventHalt:
		select {
		case r.wishes <- e.Kind:
		default: // one wish a boot
		}
	case wire.EventLog:
		r.m.o.Log(e.Text)
	case wire.EventDone:
		r.release(e)
	}
}

func bootError(e wire.Event) error {
	var cause error
	if e.Errno != 0 {
		cause = syscall.Errno(e.Errno)
	}
	if e.Refused {
		return &RefusedError{Err: fmt.Errorf("%s", e.Text), Remedy: remedy()}
	}
	return &BootError{Text: e.Text, Err: cause}
}

// order sends an order and waits until pid 1 has carried it out.
func (r *running) order(ctx context.Context, o wire.Order) error {
	_, err := r.ask(ctx, o)
	return err
}

// ask is order for those with an outcome; that of a Mac that ended meanwhile is
// the zero one.
func (r *running) ask(ctx context.Context, o wire.Order) (wire.Event, error) {
	done := make(chan wire.Event, 1)
	r.mu.Lock()
	if r.waiting == nil {
		r.mu.Unlock()
		return wire.Event{}, ErrOff
	}
	r.seq++
	o.Seq = r.seq
	r.waiting[o.Seq] = done
	err := json.NewEncoder(r.control).Encode(o)
	r.mu.Unlock()
	if err != nil {
		return wire.Event{}, fmt.Errorf("ordering: %w", err)
	}
	select {
	case outcome := <-done:
		return outcome, nil
	case <-ctx.Done():
		return wire.Event{}, fmt.Errorf("ordering: %w", ctx.Err())
	}
}

func (r *running) release(outcome wire.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if done, ok := r.waiting[outcome.Seq]; ok {
		done <- outcome
		delete(r.waiting, outcome.Seq)
	}
}

// releaseAll lets everybody go who waits for a Mac that has ended.
func (r *running) releaseAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, done := range r.waiting {
		close(done)
	}
	r.waiting = nil
}
