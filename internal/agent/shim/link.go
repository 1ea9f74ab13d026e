package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// lastWord is how long the last frame of a stream may take to leave.
const lastWord = time.Second

// link is one side of a stream: data of each kind flows on its own account, so that one
// which nobody reads holds up no other, and memory is bounded.
type link struct {
	conn net.Conn
	in   map[kind]*inbox
	out  map[kind]*allowance
	// sizes has the newest size of the terminal.
	sizes chan vm.TerminalSize
	// last is the end that the shim told. It may be read once gone is closed.
	last *reply
	// err is why the stream ended, io.EOF after the last frame. As last.
	err error
	// gone is closed when nothing more will come.
	gone chan struct{}
	once sync.Once

	sending sync.Mutex
	buffer  []byte
}

// newLink makes the side that receives some kinds of data and sends others.
func newLink(conn net.Conn, receives, sends []kind) *link {
	l := &link{
		conn: conn, in: map[kind]*inbox{}, out: map[kind]*allowance{},
		sizes: make(chan vm.TerminalSize, 1), gone: make(chan struct{}),
	}
	for _, k := range receives {
		l.in[k] = newInbox(func(n int) { _ = l.send(credit, creditPayload(k, n)) })
	}
	for _, k := range sends {
		l.out[k] = newAllowance()
	}
	return l
}

// send writes one frame.
func (l *link) send(k kind, payload []byte) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.buffer = appendFrame(l.buffer[:0], k, payload)
	if _, err := l.conn.Write(l.buffer); err != nil {
		return fmt.Errorf("sending to a stream of a VM: %w", err)
	}
	return nil
}

// finish sends the last frame, to whom still takes it.
func (l *link) finish(r reply) {
	r.V = version
	data, err := json.Marshal(r)
	if err == nil && len(data) <= maxFrame {
		_ = l.conn.SetWriteDeadline(time.Now().Add(lastWord))
		_ = l.send(ended, data)
	}
	l.cut(net.ErrClosed)
}

// cut ends the stream.
func (l *link) cut(err error) { l.close(err, nil) }

// close ends the stream with the shim's last frame, or without one.
func (l *link) close(err error, last *reply) {
	l.once.Do(func() {
		l.err, l.last = err, last
		_ = l.conn.Close()
		for _, a := range l.out {
			a.end(err)
		}
		for _, i := range l.in {
			i.end(err)
		}
		close(l.gone)
	})
}

// receive reads frames until the stream ends. It waits for no reader of the data.
func (l *link) receive(from *bufio.Reader) {
	var k kind
	var payload []byte
	for {
		var err error
		if k, payload, err = readFrame(from, payload); err == nil {
			err = l.take(k, payload)
		}
		switch told := (toldError{}); {
		case errors.As(err, &told):
			l.close(io.EOF, &told.last)
			return
		case errors.Is(err, io.EOF):
			l.cut(errBrokeOff)
			return
		case err != nil:
			l.cut(err)
			return
		}
	}
}

// errBrokeOff: the other side went away without a last frame.
var errBrokeOff = errors.New("the stream broke off")

// toldError ends the reading: the last frame came.
type toldError struct{ last reply }

func (toldError) Error() string { return "the stream has ended" }

func (l *link) take(k kind, payload []byte) error {
	switch k {
	case stdin, stdout, stderr:
		to := l.in[k]
		if to == nil {
			return fmt.Errorf("%w: data that nobody asked for", errProtocol)
		}
		return to.put(payload)
	case stdinEnd:
		if to := l.in[stdin]; to != nil {
			to.end(io.EOF)
		}
	case resize:
		size, err := parseSize(payload)
		if err != nil {
			return err
		}
		newest(l.sizes, size)
	case credit:
		of, n, err := parseCredit(payload)
		if err != nil || l.out[of] == nil {
			return errors.Join(err, errProtocol)
		}
		return l.out[of].give(n)
	case ended:
		return l.end(payload)
	}
	return nil
}

// end takes the shim's last frame: what came before it is still read.
func (l *link) end(payload []byte) error {
	var last reply
	if err := json.Unmarshal(payload, &last); err != nil {
		return fmt.Errorf("%w: its end is no JSON", errProtocol)
	}
	return toldError{last}
}

// newest puts a size in the place of one that nobody has taken yet.
func newest(sizes chan vm.TerminalSize, size vm.TerminalSize) {
	for {
		select {
		case sizes <- size:
			return
		default:
		}
		select {
		case <-sizes:
		default:
		}
	}
}

// stop has writers fail, also one that the other side's socket holds up, and leaves the
// stream for its last frame.
func (l *link) stop(err error) {
	_ = l.conn.SetWriteDeadline(time.Now().Add(lastWord))
	for _, a := range l.out {
		a.end(err)
	}
}

// to is a writer of one kind of data, which waits for the other side to take it.
func (l *link) to(k kind) io.Writer { return sender{l, k} }

type sender struct {
	link *link
	kind kind
}

func (s sender) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n, err := s.link.out[s.kind].take(min(len(p)-sent, framePiece))
		if err == nil {
			err = s.link.send(s.kind, p[sent:sent+n])
		}
		if err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}
