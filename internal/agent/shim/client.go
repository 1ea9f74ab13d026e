package shim

import (
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
// for an ID that began nothing runs again. It returns nil once the command began,
// or ended without having begun, which ReadCommand tells apart; both are on the
// disk by then. Any error says that the command was not taken: ErrNoShim,
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
		return fmt.Errorf("waiting for a shim: %w", context.Cause(ctx))
	}
}

// ask sends one request and returns the answer. A shim that lives but does not
// answer is given up after timeout; zero: never.
func ask(ctx context.Context, dir string, q request, timeout time.Duration) (reply, error) {
	data, err := line(q)
	if err != nil {
		return reply{}, err
	}
	if len(data) > maxRequest {
		return reply{}, invalid("arguments and environment are %d bytes on the way to the guest; at most %d are possible", len(data), maxRequest)
	}
	conn, err := connect(ctx, dir, timeout)
	if err != nil {
		return reply{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var answer reply
	_, err = conn.Write(data)
	// A shim that refused may have hung up before it read all of the request.
	if readErr := readLine(conn, maxReply, &answer); readErr != nil {
		if ctx.Err() != nil {
			return reply{}, fmt.Errorf("waiting for a shim: %w", context.Cause(ctx))
		}
		return reply{}, fmt.Errorf("%w: %w", ErrNoShim, errors.Join(err, readErr))
	}
	return answer, answer.refusal()
}

func (r reply) refusal() error {
	switch {
	case r.Error == nil && r.V != version:
		return &RefusedError{Code: RefusedVersion, Message: fmt.Sprintf("it speaks version %q of the protocol, this agent %q", r.V, version)}
	case r.Error == nil:
		return nil
	case r.Error.Code == refusedEnded:
		return fmt.Errorf("%w: %s", ErrNoShim, r.Error.Message)
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
