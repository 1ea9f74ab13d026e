package shim

import (
	"fmt"
	"sync"
)

// allowance is how much of one kind of data the other side takes for now.
type allowance struct {
	mu   sync.Mutex
	more sync.Cond
	left int
	err  error
}

func newAllowance() *allowance {
	a := &allowance{left: window}
	a.more.L = &a.mu
	return a
}

// take waits until something may be sent, and returns how much of n.
func (a *allowance) take(n int) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.left == 0 && a.err == nil {
		a.more.Wait()
	}
	if a.err != nil {
		return 0, a.err
	}
	n = min(n, a.left)
	a.left -= n
	return n, nil
}

// give allows for more. Who gives more than was taken breaks the protocol.
func (a *allowance) give(n int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > window-a.left {
		return fmt.Errorf("%w: too much credit", errProtocol)
	}
	a.left += n
	a.more.Broadcast()
	return nil
}

// end has take fail.
func (a *allowance) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
	}
	a.more.Broadcast()
}

// inbox keeps data of one kind until it is read: window bytes at most.
type inbox struct {
	// taken is called with how much was read, now and then.
	taken func(n int)

	mu   sync.Mutex
	more sync.Cond
	// data is in room, at its front or behind what was read. Where nothing waits there is none.
	data []byte
	room *[window]byte
	// read since the other side was told.
	read int
	err  error
}

// rooms are those that no inbox needs for now.
var rooms = sync.Pool{New: func() any { return new([window]byte) }}

func newInbox(taken func(n int)) *inbox {
	i := &inbox{taken: taken}
	i.more.L = &i.mu
	return i
}

// put never waits.
func (i *inbox) put(p []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.data)+i.read+len(p) > window {
		return fmt.Errorf("%w: more than it may send", errProtocol)
	}
	if i.err == nil {
		i.keep(p)
	}
	i.more.Broadcast()
	return nil
}

// keep puts data behind what waits, which moves to the front where that has to make room.
func (i *inbox) keep(p []byte) {
	if len(p) == 0 {
		return
	}
	if i.room == nil {
		i.room = rooms.Get().(*[window]byte)
		i.data = i.room[:0]
	}
	if len(p) > cap(i.data)-len(i.data) {
		i.data = i.room[:copy(i.room[:], i.data)]
	}
	i.data = append(i.data, p...)
}

// Read returns what is there; err once that has been read.
func (i *inbox) Read(p []byte) (int, error) {
	n, tell, err := i.next(p)
	if tell > 0 {
		i.taken(tell)
	}
	return n, err
}

// await returns once there is something to read, if only the end.
func (i *inbox) await() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wait()
}

func (i *inbox) wait() {
	for len(i.data) == 0 && i.err == nil {
		i.more.Wait()
	}
}

func (i *inbox) next(p []byte) (n, tell int, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wait()
	if len(i.data) == 0 {
		return 0, 0, i.err
	}
	n = copy(p, i.data)
	i.data = i.data[n:]
	if len(i.data) == 0 {
		rooms.Put(i.room)
		i.data, i.room = nil, nil
	}
	i.read += n
	if i.read >= window/4 && i.err == nil {
		tell, i.read = i.read, 0
	}
	return n, tell, nil
}

// end has Read fail once it has returned what is there. The first error stays.
func (i *inbox) end(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err == nil {
		i.err = err
	}
	i.more.Broadcast()
}
