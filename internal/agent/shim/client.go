package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/macfleet/macfleet/internal/agent/hostos"
)

const (
	// answerPatience is how long a shim that lives may take to open its socket, on a
	// host that is busy with the boot of another guest.
	answerPatience = 30 * time.Second
	dialPause      = 5 * time.Millisecond
	maxDialPause   = 200 * time.Millisecond
)

// Run has the shim of the attempt in dir run a command in the guest, at most once:
// for an ID that began nothing runs again. It returns nil once the guest has
// started the command, or it ended, begun or not, which ReadCommand tells apart; both
// are on the disk by then. Any error says that the command was not taken: ErrNoShim,
// a *RefusedError, or that of ctx, after which the shim may go on with it.
func Run(ctx context.Context, dir string, r GuestRun) error {
	if refused := r.check(); refused != nil {
		return refused
	}
	_, err := ask(ctx, dir, request{V: version, Run: toWire(r)}, answerPatience)
	if !errors.Is(err, ErrNoShim) {
		return err
	}
	// The shim may have gone between its record and its answer.
	begun, end, readErr := ReadCommand(dir, r.ID)
	if readErr == nil && (begun || end != nil) {
		return nil
	}
	return err
}

// AwaitCommand returns the end of a command that Run began, however long it takes.
// A nil end says that the shim is gone and nobody wrote one: the command is lost.
// It fails with ctx, and with a *RefusedError for a command that the shim does not
// know.
func AwaitCommand(ctx context.Context, dir, id string) (*CommandEnd, error) {
	for {
		alive, err := Alive(dir)
		if err != nil {
			return nil, err
		}
		// Looked at after the shim: what it wrote before it went is not missed.
		if _, end, err := ReadCommand(dir, id); err != nil || end != nil || !alive {
			return end, err
		}
		answer, err := ask(ctx, dir, request{V: version, Await: &awaitRequest{ID: id}}, 0)
		if !errors.Is(err, ErrNoShim) {
			return answer.End, err
		}
		if err := pause(ctx, dialPause); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the process that runs a VM: %w", context.Cause(ctx))
	}
}

// ask sends one request and returns the answer. A shim that lives but does not
// answer is given up after timeout; zero: never.
func ask(ctx context.Context, dir string, q request, timeout time.Duration) (reply, error) {
	a, err := askFor(ctx, dir, q, timeout)
	if err != nil {
		return reply{}, err
	}
	return a.reply, a.conn.Close()
}

// answered is a request with its answer, and the connection for what follows.
type answered struct {
	reply reply
	conn  net.Conn
	from  *bufio.Reader
}

// askFor sends one request and reads the answer. Where it fails nothing stays open.
func askFor(ctx context.Context, dir string, q request, timeout time.Duration) (a answered, err error) {
	data, err := line(q)
	if err != nil {
		return a, err
	}
	if len(data) > maxRequest {
		return a, invalid("arguments and environment are %d bytes on the way to the guest; at most %d are possible", len(data), maxRequest)
	}
	if a.conn, err = connect(ctx, dir, timeout); err != nil {
		return a, err
	}
	defer func() {
		if err != nil {
			_ = a.conn.Close()
		}
	}()
	defer context.AfterFunc(ctx, func() { _ = a.conn.Close() })()
	a.from = bufio.NewReader(a.conn)
	_, err = a.conn.Write(data)
	// A shim that refused may have hung up before it read all of the request.
	if readErr := readLine(a.from, maxReply, &a.reply); readErr != nil {
		if ctx.Err() != nil {
			return a, fmt.Errorf("waiting for the process that runs a VM: %w", context.Cause(ctx))
		}
		return a, fmt.Errorf("%w: %w", ErrNoShim, errors.Join(err, readErr))
	}
	return a, a.reply.refusal()
}

func (r reply) refusal() error {
	switch {
	case r.Error == nil && r.V != version:
		return &RefusedError{Code: RefusedVersion, Message: fmt.Sprintf("it speaks version %q of the protocol, this agent %q", r.V, version)}
	case r.Error == nil:
		return nil
	case r.Error.Code == refusedEnded:
		return fmt.Errorf("%w: %s", ErrNoShim, r.Error.Message)
	case r.Error.Code == refusedStreams:
		return fmt.Errorf("%w: %s", ErrTooManyStreams, r.Error.Message)
	case r.Error.Code == refusedPort:
		return ErrPortRefused
	case r.Error.Code == refusedBehind:
		return ErrFellBehind
	}
	return &RefusedError{Code: r.Error.Code, Message: r.Error.Message}
}

// connect waits for a shim that was just started to open its socket.
func connect(ctx context.Context, dir string, timeout time.Duration) (net.Conn, error) {
	begin := time.Now()
	for delay := dialPause; ; delay = min(2*delay, maxDialPause) {
		conn, err := hostos.DialUnix(ctx, filepath.Join(dir, socketFile))
		if err == nil {
			return conn, nil
		}
		if alive, aliveErr := Alive(dir); aliveErr != nil || !alive {
			return nil, errors.Join(ErrNoShim, aliveErr)
		}
		if started, found, readErr := ReadStarted(dir); readErr == nil && found && started.SocketError != "" {
			return nil, fmt.Errorf("%w: it could not open its socket: %s", ErrNoShim, started.SocketError)
		}
		if timeout > 0 && time.Since(begin) > timeout {
			return nil, fmt.Errorf("%w: it runs, but its socket does not answer: %w", ErrNoShim, err)
		}
		if err := pause(ctx, delay); err != nil {
			return nil, err
		}
	}
}
