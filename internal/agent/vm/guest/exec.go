package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// startFailure is the agent's code for a command that never ran.
	startFailure = 125
	// inputPiece is how much input one message carries, in bytes.
	inputPiece = 32 << 10
)

// Exec runs one command. It returns when the guest says how it ended, without
// waiting for a blocked read of Stdin. An error of Stdout or Stderr ends the command.
// An error after the end of ctx wraps its cause too.
func (c *Client) Exec(ctx context.Context, g vm.GuestCommand, s vm.Streams) (int, error) {
	env, err := environment(g)
	if err != nil {
		return 0, err
	}
	answering, cancel := context.WithTimeout(ctx, c.answer)
	defer cancel()
	ability, err := c.ready(answering)
	if err != nil {
		return 0, err
	}
	if !g.Bare {
		return c.execWrapped(ctx, g, s, env, ability)
	}
	if !ability.env && (len(env) > 0 || g.Dir != "") {
		return 0, fmt.Errorf("%w: the guest agent is too old to give a bare command an environment or a directory", vm.ErrNotExecuted)
	}
	end, err := c.call(ctx, ctx, &command{
		name: g.Argv[0], args: g.Argv[1:], interactive: s.Stdin != nil,
		tty: g.TTY, size: terminalSize{rows: g.Size.Rows, cols: g.Size.Cols}, env: env, dir: g.Dir,
	}, s)
	if err != nil {
		return 0, err
	}
	if end.unstarted() {
		return 0, fmt.Errorf("%w: its agent does not say why", vm.ErrNotExecuted)
	}
	return end.code, nil
}

// environment checks a command before anything is sent: the agent's messages carry
// UTF-8 only, and no system takes a zero byte.
func environment(g vm.GuestCommand) (map[string]string, error) {
	if len(g.Argv) == 0 || g.Argv[0] == "" {
		return nil, fmt.Errorf("%w: it has no name", vm.ErrNotExecuted)
	}
	for i, a := range append([]string{g.Dir}, g.Argv...) {
		if !sendable(a) {
			return nil, fmt.Errorf("%w: argument %d is not text", vm.ErrNotExecuted, i-1)
		}
	}
	env := make(map[string]string, len(g.Env))
	for _, e := range g.Env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" || !sendable(e) {
			return nil, fmt.Errorf("%w: environment variable %q is not NAME=text", vm.ErrNotExecuted, name)
		}
		env[name] = value
	}
	return env, nil
}

func sendable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// ending of a command, as the agent tells it.
type ending struct {
	code    int
	started bool
}

// unstarted: the command never ran, as an agent says that tells when one does.
func (e ending) unstarted() bool { return !e.started && e.code == startFailure }

// call runs one command stream to its end, and sends input until feeding ends. Until the
// command is sent, errors are vm.ErrGuestUnreachable.
func (c *Client) call(ctx, feeding context.Context, cmd *command, s vm.Streams) (ending, error) {
	// Ending it has the agent kill a command that still runs.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done, err := c.begin(cancel)
	if err != nil {
		return ending{}, err
	}
	defer done()
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, methodExec)
	if err == nil {
		err = stream.SendMsg(&execRequest{command: cmd})
	}
	if err != nil {
		return ending{}, unsent(ctx, stream, err)
	}
	go c.knock(ctx)
	feeding, starve := context.WithCancel(feeding)
	defer starve()
	go feed(feeding, stream, cmd, s)
	return receive(ctx, stream, s)
}

// knock sends something now and then while a command runs: tart does not tell that the
// guest's end of the line is gone before that is written to. What comes of it shows in
// the command's stream.
func (c *Client) knock(ctx context.Context) {
	tick := time.NewTicker(c.knocks)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_, _ = c.Address(ctx)
		}
	}
}

// unsent explains a stream that took no command.
func unsent(ctx context.Context, stream grpc.ClientStream, err error) error {
	if errors.Is(err, io.EOF) {
		err = stream.RecvMsg(&execResponse{})
	}
	if ctx.Err() != nil {
		return fmt.Errorf("starting a command in the guest: %w: %w", vm.ErrGuestUnreachable, context.Cause(ctx))
	}
	return fmt.Errorf("starting a command in the guest: %w: %s", vm.ErrGuestUnreachable, status.Convert(err).Message())
}

// receive copies output until the end.
func receive(ctx context.Context, stream grpc.ClientStream, s vm.Streams) (ending, error) {
	var end ending
	silent := true
	var r execResponse
	for {
		if err := stream.RecvMsg(&r); err != nil {
			return ending{}, broken(ctx, err, silent)
		}
		silent = false
		switch {
		case r.exited:
			end.code = r.code
			return end, nil
		case r.started:
			end.started = true
		}
		if err := errors.Join(write(s.Stdout, r.stdout), write(s.Stderr, r.stderr)); err != nil {
			return ending{}, untaken(err)
		}
	}
}

var errUntaken = errors.New("taking the output of a command in the guest")

// untaken explains an output that the caller did not take.
func untaken(err error) error { return fmt.Errorf("%w: %w: %w", errUntaken, vm.ErrLost, err) }

func write(w io.Writer, data []byte) error {
	if w == nil || len(data) == 0 {
		return nil
	}
	_, err := w.Write(data)
	return err
}

// broken explains a stream that ended without an exit code. A command that the agent
// could not start is an error of its own making before anything else came; what
// the transport says tells nothing of a command that was sent.
func broken(ctx context.Context, err error, silent bool) error {
	if ctx.Err() != nil {
		return fmt.Errorf("running a command in the guest: %w: %w", vm.ErrLost, context.Cause(ctx))
	}
	kind := vm.ErrLost
	if silent && status.Code(err) == codes.Unknown && !errors.Is(err, io.EOF) {
		kind = vm.ErrNotExecuted
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("running a command in the guest: %w: no exit code came", kind)
	}
	return fmt.Errorf("running a command in the guest: %w: %s", kind, status.Convert(err).Message())
}

// feed sends input and sizes until ctx ends. It never closes its
// side of the stream: some agents take that for the end of the command.
func feed(ctx context.Context, stream grpc.ClientStream, cmd *command, s vm.Streams) {
	input := make(chan []byte)
	if cmd.interactive {
		go read(ctx, s.Stdin, input)
	}
	for {
		var r execRequest
		select {
		case <-ctx.Done():
			return
		case piece, ok := <-input:
			if !ok {
				input = nil
			}
			r.input = &piece
		case size, ok := <-s.Resize:
			if !ok {
				s.Resize = nil
				continue
			}
			r.size = &terminalSize{rows: size.Rows, cols: size.Cols}
		}
		if stream.SendMsg(&r) != nil {
			return
		}
	}
}

// read passes input on until it ends. It may stay in a Read when nobody wants more. Each
// piece is good until the next but one is read: who takes the next is done with it.
func read(ctx context.Context, from io.Reader, to chan<- []byte) {
	defer close(to)
	var pieces [2][]byte
	for i := 0; ; i = 1 - i {
		if pieces[i] == nil {
			pieces[i] = make([]byte, inputPiece)
		}
		n, err := from.Read(pieces[i])
		if n > 0 {
			select {
			case to <- pieces[i][:n]:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
