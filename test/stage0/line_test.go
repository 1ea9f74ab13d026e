package stage0

import (
	"io"
	"net"
	"sync"
	"testing"
)

// line is the network between a manager and a Mac.
type line struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	calls map[net.Conn]net.Conn // the manager's end, and the Mac's
	deaf  bool
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &line{l: l, to: to, calls: map[net.Conn]net.Conn{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { n.carry(near) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		n.cut()
		all.Wait()
	})
	return n
}

func (n *line) port() int { return n.l.Addr().(*net.TCPAddr).Port }

func (n *line) carry(near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := net.Dial("tcp", n.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	n.mu.Lock()
	n.calls[near] = far
	n.mu.Unlock()
	var both sync.WaitGroup
	pass := func(to, from net.Conn, w io.Writer) {
		_, _ = io.Copy(w, from)
		_ = to.Close()
		_ = from.Close()
	}
	both.Go(func() { pass(far, near, far) })
	both.Go(func() { pass(near, far, &hearing{n, near}) })
	both.Wait()
	n.mu.Lock()
	delete(n.calls, near)
	n.mu.Unlock()
}

// hearing is what reaches the manager, as long as the line is not deaf.
type hearing struct {
	n  *line
	to net.Conn
}

func (h *hearing) Write(p []byte) (int, error) {
	h.n.mu.Lock()
	deaf := h.n.deaf
	h.n.mu.Unlock()
	if deaf {
		return len(p), nil
	}
	return h.to.Write(p)
}

// mute has nothing of what the Mac says arrive any more, until cut.
func (n *line) mute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf = true
}

// idle reports whether nobody has a connection.
func (n *line) idle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.calls) == 0
}

// cut ends all that is open; what begins afterwards works.
func (n *line) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf = false
	for near, far := range n.calls {
		_ = near.Close()
		_ = far.Close()
	}
}
