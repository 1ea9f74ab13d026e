package server

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// streamsFrom leaves out what was not asked for: a WebSocket has all of them.
func streamsFrom(ctx context.Context, c clock.WithTicker, o *remotecommand.Options, in io.Reader, out, err io.Writer, resize <-chan remotecommand.TerminalSize) vm.Streams {
	var s vm.Streams
	said := io.Discard
	if o.Stderr {
		s.Stderr, said = pieces{err}, err
	}
	if o.Stdout {
		s.Stdout, said = pieces{out}, out
	}
	if o.Stdin {
		s.Stdin = patientInput(ctx, c, in, said)
	}
	if o.TTY && resize != nil {
		s.Resize = sizes(ctx, resize)
	}
	return s
}

// beat is how often a client whose input waits is looked after.
const beat = 10 * time.Second

// patientInput is an input of which one piece is kept at most. While that waits, nothing is read
// of the client, and so not that it is gone: every ten seconds nothing is written to it, for
// which its system tells.
func patientInput(ctx context.Context, c clock.WithTicker, in io.Reader, out io.Writer) io.Reader {
	to, from := io.Pipe()
	var waits atomic.Bool
	go func() {
		piece := make([]byte, maxPiece)
		for {
			n, err := in.Read(piece)
			waits.Store(true)
			_, untaken := from.Write(piece[:n])
			waits.Store(false)
			if err != nil || untaken != nil {
				_ = from.CloseWithError(err)
				return
			}
		}
	}()
	go func() {
		lookAfter(ctx, c, &waits, out)
		_ = to.CloseWithError(context.Cause(ctx))
	}()
	return to
}

// lookAfter looks after a client while something of it waits, until ctx ends.
func lookAfter(ctx context.Context, c clock.WithTicker, waits *atomic.Bool, out io.Writer) {
	ticker := c.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		if waits.Load() {
			_, _ = out.Write(nil)
		}
	}
}

// patientOutput says when it waits.
type patientOutput struct {
	io.Writer
	waits *atomic.Bool
}

func (w patientOutput) Write(p []byte) (int, error) {
	w.waits.Store(true)
	defer w.waits.Store(false)
	return w.Writer.Write(p)
}

// maxPiece is written to a client at once: a frame has a greatest length, and others
// wait for its end.
const maxPiece = 64 << 10

// pieces writes no more than maxPiece at once.
type pieces struct{ to io.Writer }

func (w pieces) Write(p []byte) (int, error) {
	written := 0
	for {
		n, err := w.to.Write(p[written:min(len(p), written+maxPiece)])
		written += n
		if err != nil || written >= len(p) {
			return written, err
		}
	}
}

// sizes are those of the client's terminal.
func sizes(ctx context.Context, from <-chan remotecommand.TerminalSize) <-chan vm.TerminalSize {
	to := make(chan vm.TerminalSize)
	go func() {
		defer close(to)
		for size := range from {
			select {
			case to <- vm.TerminalSize{Rows: size.Height, Cols: size.Width}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to
}

// splitCommand has no quotes: /run never had.
func splitCommand(text string) []string { return strings.Split(text, " ") }
