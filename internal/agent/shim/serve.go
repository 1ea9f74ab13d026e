package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/macfleet/macfleet/internal/agent/hostos"
)

// requestTimeout bounds how long a request may take to arrive, and an answer to leave.
const requestTimeout = 10 * time.Second

// listen opens the socket. Only the owner of the directory may connect to it.
func listen(path string) (net.Listener, error) {
	l, err := hostos.ListenUnix(path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protecting the socket of a VM: %w", err), l.Close())
	}
	return l, nil
}

// serve answers until the listener is closed.
func (c *commands) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Too many open files, or a caller that hung up: neither lasts.
			time.Sleep(minPoll)
			continue
		}
		go func() {
			defer conn.Close()
			c.answer(conn)
		}()
	}
}

// answer reads one request and answers it. Nobody is left to tell of an error.
func (c *commands) answer(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(requestTimeout))
	var q request
	from := bufio.NewReader(conn)
	if err := readLine(from, maxRequest, &q); err != nil {
		c.send(conn, reply{Error: &refusal{Code: RefusedInvalid, Message: err.Error()}})
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	if q.V == version && c.answerStream(conn, from, q) {
		return
	}
	// A caller sends nothing more: what ends the reading is its going.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, from)
		cancel()
	}()
	c.send(conn, c.reply(ctx, q))
}

func (c *commands) send(conn net.Conn, r reply) {
	r.V = version
	_ = conn.SetWriteDeadline(time.Now().Add(requestTimeout))
	if data, err := line(r); err == nil {
		_, _ = conn.Write(data)
	}
	// A stream may follow, which takes as long as it does.
	_ = conn.SetWriteDeadline(time.Time{})
}

func (c *commands) reply(ctx context.Context, q request) reply {
	switch {
	case q.V != version:
		return reply{Error: &refusal{
			Code:    RefusedVersion,
			Message: fmt.Sprintf("it speaks version %s of the protocol, and was asked in version %q", version, q.V),
		}}
	case q.Run != nil:
		return c.replyRun(ctx, q.Run.fromWire())
	case q.Await != nil:
		return c.replyAwait(ctx, q.Await.ID)
	case q.Signal != nil:
		return c.replySignal(ctx, *q.Signal)
	}
	return reply{Error: &refusal{Code: RefusedInvalid, Message: "it does not know what it is asked for"}}
}

func (c *commands) replyRun(ctx context.Context, r GuestRun) reply {
	if bad := r.check(); bad != nil {
		return reply{Error: &refusal{Code: bad.Code, Message: bad.Message}}
	}
	cmd, refused := c.take(r)
	if refused != nil {
		return reply{Error: refused}
	}
	select {
	case <-cmd.target.known: // not when it was sent: what is shown to run has its process
		return reply{}
	case <-cmd.ended:
		return reply{Error: cmd.refused}
	case <-ctx.Done():
		return reply{}
	}
}

func unknown(id string) *refusal {
	return &refusal{Code: RefusedUnknown, Message: fmt.Sprintf("it was never given a command %q", id)}
}

func (c *commands) replyAwait(ctx context.Context, id string) reply {
	cmd := c.find(id)
	if cmd == nil {
		return reply{Error: unknown(id)}
	}
	select {
	case <-cmd.ended:
		return reply{Error: cmd.refused, End: cmd.end}
	case <-ctx.Done():
		return reply{}
	}
}
