package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Exec runs a further command in the guest of the attempt in dir, with the caller's streams,
// and returns its exit code. When ctx ends, or an output fails, the stream is cut and not the
// command: its output is then thrown away, its input has ended. With a terminal, the command
// ends with it; of those without, the last maxLeft go on. It returns once no output is
// being written; a Read of Stdin is not waited for. Errors are ErrNoShim, ErrTooManyStreams,
// *RefusedError, those of package vm where there is no exit code, and that of ctx.
func Exec(ctx context.Context, dir string, c vm.GuestCommand, s vm.Streams) (int, error) {
	return execIn(ctx, dir, c, s, false)
}

// ExecTied is Exec for a command that is killed when ctx ends or the caller dies, such as a
// probe's. It has a place though people have taken all.
func ExecTied(ctx context.Context, dir string, c vm.GuestCommand, s vm.Streams) (int, error) {
	return execIn(ctx, dir, c, s, true)
}

func execIn(ctx context.Context, dir string, c vm.GuestCommand, s vm.Streams, tied bool) (int, error) {
	if bad := (GuestRun{ID: "exec", Command: c}).check(); bad != nil {
		return 0, bad
	}
	end, err := converse(ctx, dir, request{V: version, Exec: &execRequest{
		Argv: c.Argv, Env: c.Env, Dir: c.Dir, TTY: c.TTY, Rows: c.Size.Rows, Cols: c.Size.Cols,
		Stdin: s.Stdin != nil, Stdout: s.Stdout != nil, Stderr: s.Stderr != nil, Tied: tied, Bare: c.Bare,
	}}, s)
	if err != nil {
		return 0, err
	}
	if end.Message == heldMessage && s.Held != nil {
		s.Held()
	}
	return end.Code, end.err()
}

// Attach copies the output of a command that Run began, from now on, and feeds its input
// where it was run with Stdin. It returns the command's end, or one without a time where the
// input of s ended first and the command, which was run without StdinOnce, waits for more. A
// reader that is a mebibyte behind is cut off with ErrFellBehind, as it must hold up neither
// the command nor its log. Other errors are those of Exec; those of the command are in its end.
func Attach(ctx context.Context, dir, id string, s vm.Streams) (*CommandEnd, error) {
	return converse(ctx, dir, request{V: version, Attach: &attachRequest{
		ID: id, Stdin: s.Stdin != nil, Stdout: s.Stdout != nil, Stderr: s.Stderr != nil,
	}}, s)
}

// converse has a stream until its end.
func converse(ctx context.Context, dir string, q request, s vm.Streams) (*CommandEnd, error) {
	a, err := askFor(ctx, dir, q, answerPatience)
	if err != nil {
		return nil, err
	}
	l := newLink(a.conn, []kind{stdout, stderr}, []kind{stdin})
	defer l.cut(net.ErrClosed)
	defer context.AfterFunc(ctx, func() { l.cut(context.Cause(ctx)) })()
	go l.receive(a.from)
	go l.feed(s.Stdin)
	go l.resizes(s.Resize)
	var outputs sync.WaitGroup
	var taken, errTaken error
	outputs.Go(func() { taken = l.drain(stdout, s.Stdout) })
	outputs.Go(func() { errTaken = l.drain(stderr, s.Stderr) })
	outputs.Wait()
	<-l.gone
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("a stream of a VM: %w", context.Cause(ctx))
	case taken != nil || errTaken != nil:
		return nil, fmt.Errorf("taking the output of a command in the guest: %w", errors.Join(taken, errTaken))
	}
	return l.told()
}

// told is the end as the shim told it.
func (l *link) told() (*CommandEnd, error) {
	if l.last == nil {
		return nil, fmt.Errorf("%w: %w: %w", vm.ErrLost, ErrNoShim, l.err)
	}
	if err := l.last.refusal(); err != nil {
		return nil, err
	}
	if l.last.End == nil {
		return nil, fmt.Errorf("%w: no end of the command came", vm.ErrLost)
	}
	return l.last.End, nil
}

// feed sends input to its end.
func (l *link) feed(from io.Reader) {
	if from == nil {
		return
	}
	// An error of a reader is its end; one of the stream shows in the stream.
	_, _ = io.CopyBuffer(struct{ io.Writer }{l.to(stdin)}, struct{ io.Reader }{from}, make([]byte, framePiece))
	_ = l.send(stdinEnd, nil)
}

func (l *link) resizes(from <-chan vm.TerminalSize) {
	for {
		select {
		case size, ok := <-from:
			if !ok {
				return
			}
			_ = l.send(resize, sizePayload(size))
		case <-l.gone:
			return
		}
	}
}

// drain passes one output on. An error of its writer cuts the stream, and is returned.
func (l *link) drain(k kind, to io.Writer) error {
	for {
		l.in[k].await()
		over, err := l.pass(k, to)
		if err != nil {
			l.cut(err)
		}
		if over || err != nil {
			return err
		}
	}
}

// pieces are buffers for one piece: a stream that is silent has none.
var pieces = sync.Pool{New: func() any { return new([framePiece]byte) }}

// pass passes on what there is of one output, a piece at most, and reports its end.
func (l *link) pass(k kind, to io.Writer) (over bool, untaken error) {
	piece := pieces.Get().(*[framePiece]byte)
	defer pieces.Put(piece)
	n, err := l.in[k].Read(piece[:])
	if n > 0 && to != nil {
		_, untaken = to.Write(piece[:n])
	}
	return err != nil, untaken
}

// err is why a command has no exit code, by the errors of package vm.
func (e *CommandEnd) err() error {
	if e == nil {
		return nil
	}
	switch e.Outcome {
	case Exited:
		return nil
	case NotExecuted:
		return endError{e.Message, vm.ErrNotExecuted}
	case Unreachable:
		return endError{e.Message, vm.ErrGuestUnreachable}
	}
	return endError{e.Message, vm.ErrLost}
}

// endError has the words of the shim.
type endError struct {
	message string
	kind    error
}

func (e endError) Error() string { return e.message }

func (e endError) Unwrap() error { return e.kind }
