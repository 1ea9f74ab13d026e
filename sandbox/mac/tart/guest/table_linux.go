package guest

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// drainPoll is how often a guest that shuts down looks whether all have gone.
const drainPoll = 5 * time.Millisecond

// process is a command the guest agent started.
type process struct {
	pid    int
	done   chan struct{}
	status syscall.WaitStatus
}

// table starts and reaps every process of a guest, whose pid 1 it belongs to.
type table struct {
	mu    sync.Mutex
	live  map[int]*process
	alone bool // there is no child left
}

func newTable() *table {
	t := &table{live: map[int]*process{}, alone: true}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			t.reap()
		}
	}()
	return t
}

// start forks under the lock, so that reap never meets a child it does not know.
func (t *table) start(path string, argv []string, attr *syscall.ProcAttr) (*process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, fmt.Errorf("fork/exec %s: %w", path, err)
	}
	p := &process{pid: pid, done: make(chan struct{})}
	t.live[pid] = p
	t.alone = false
	return p, nil
}

// reap collects whatever has ended, orphans included.
func (t *table) reap() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			t.alone = errors.Is(err, syscall.ECHILD)
			return
		}
		if p := t.live[pid]; p != nil {
			delete(t.live, pid)
			p.status = status
			close(p.done)
		}
	}
}

// drain asks all to end and waits for it, but not longer than grace.
func (t *table) drain(grace time.Duration) {
	_ = syscall.Kill(-1, syscall.SIGTERM) // of a pid namespace: everything but pid 1
	look := time.NewTicker(drainPoll)
	defer look.Stop()
	late := time.After(grace)
	for {
		t.reap()
		t.mu.Lock()
		alone := t.alone
		t.mu.Unlock()
		if alone {
			return
		}
		select {
		case <-look.C:
		case <-late:
			return
		}
	}
}

// awaitEnd waits until a process has ended and is reaped, but not longer than grace.
func (t *table) awaitEnd(pid int, grace time.Duration) {
	look := time.NewTicker(drainPoll)
	defer look.Stop()
	late := time.After(grace)
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-look.C:
		case <-late:
			return
		}
	}
}
