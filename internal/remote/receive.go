package remote

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

//go:embed snippets/receive.sh
var receiveSnippet string

// receiveTimeout bounds an upload: 16 MB at 200 kbit/s is 11 minutes.
const receiveTimeout = 15 * time.Minute

// Receive puts the build into the Mac's staging folder under its SHA-256. It
// goes on where an upload that was cut off ended, and sends nothing when the
// build is there; sent is how many bytes travelled. A refusal is
// *ReceiveRefused.
func (s *Session) Receive(ctx context.Context, b *Build) (sent int64, err error) {
	const during = "sending the build"
	ctx, cancel := context.WithTimeout(ctx, receiveTimeout)
	defer cancel()
	channel, err := s.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = channel.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = channel.Close() })
	defer stop()

	u, err := startUpload(channel)
	if err == nil {
		sent, err = u.run(b)
	}
	var refused *ReceiveRefused
	var bad *badAnswer
	switch {
	case err == nil, errors.As(err, &refused), errors.As(err, &bad):
		return sent, err
	case ctx.Err() != nil:
		return sent, fmt.Errorf("%s: %w", during, ctx.Err())
	}
	return sent, &Lost{During: during, Err: err}
}

// upload is the conversation with the snippet.
type upload struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startUpload(channel *ssh.Session) (*upload, error) {
	in, err := channel.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := channel.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := channel.Start(shell(receiveSnippet)); err != nil {
		return nil, err
	}
	return &upload{in: in, out: bufio.NewReader(io.LimitReader(out, maxWords))}, nil
}

func (u *upload) run(b *Build) (int64, error) {
	// What the Mac says of the end is better than our view of it: on a full disk,
	// say, its reading side ends first. So it is heard even when writing failed.
	_, werr := io.WriteString(u.in, b.header())
	have, done, err := u.answer(b.PackedSize())
	if err != nil || done {
		return 0, unexpected(err, werr)
	}
	n, werr := io.Copy(u.in, b.from(have))
	cerr := u.in.Close()
	_, done, err = u.answer(-1)
	if err == nil && done {
		return n, nil
	}
	return n, unexpected(err, werr, cerr)
}

// unexpected makes an end of output without an answer an error of its own,
// together with what our side saw.
func unexpected(err error, others ...error) error {
	if errors.Is(err, io.EOF) {
		return errors.Join(append(others, io.ErrUnexpectedEOF)...)
	}
	return err
}

// answer reads up to the next line that is one: how much the Mac has, or how it
// ended. Lines of a talkative login shell are passed over.
func (u *upload) answer(size int64) (have int64, staged bool, err error) {
	for {
		line, err := u.out.ReadString('\n')
		if err != nil {
			return 0, false, err
		}
		if rest, is := strings.CutPrefix(line, "have "); is && size >= 0 {
			if !parse(strings.TrimSpace(rest), &have) || have > size {
				return 0, false, &badAnswer{During: "sending the build", Reason: "it has more than there is"}
			}
			return have, false, nil
		}
		if rest, is := strings.CutPrefix(line, "receive "); is {
			return 0, true, ended(strings.TrimSpace(rest))
		}
	}
}

func ended(how string) error {
	switch outcome := ReceiveOutcome(how); outcome {
	case "staged":
		return nil
	case Short, Corrupt, Full, ReceiveFailed:
		return &ReceiveRefused{Outcome: outcome}
	}
	return &badAnswer{During: "sending the build", Reason: "it ended in an unknown way"}
}
