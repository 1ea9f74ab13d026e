package hostd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	// maxRequest bounds a request, in bytes.
	maxRequest = 4 << 10
	// maxCallers are answered at once; who comes then is hung up on.
	maxCallers = 8
)

// listen opens the socket in a folder that only root may write to.
func (h *hostd) listen(ctx context.Context) (*net.UnixListener, error) {
	dir := path.Dir(h.o.Socket)
	if err := h.o.Mac.Files.MakeDir(ctx, dir, macos.Attr{Mode: 0o755, Owner: "root", Group: "wheel"}); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	return macos.Listen(ctx, h.o.Socket, macos.Attr{Mode: 0o660, Owner: "root", Group: "staff"})
}

// serve answers until ctx ends; an error is why it cannot go on before.
func (h *hostd) serve(ctx context.Context, l *net.UnixListener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var callers sync.WaitGroup
	defer callers.Wait()
	room := make(chan struct{}, maxCallers)
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("taking a caller on %s: %w", h.o.Socket, err)
		}
		select {
		case room <- struct{}{}:
			callers.Go(func() {
				defer func() { <-room }()
				h.handle(ctx, c)
			})
		default:
			h.log.Warn("too many callers at once, one is turned away")
			_ = c.Close()
		}
	}
}

// handle is one conversation: one request, one answer.
func (h *hostd) handle(ctx context.Context, c *net.UnixConn) {
	defer func() { _ = c.Close() }()
	// A caller who waits for an answer longer than it may take waits in vain.
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := h.authorize(ctx, c); err != nil {
		h.log.Warn("a caller is turned away", "err", err)
		return
	}
	if err := h.answerOne(ctx, c); err != nil {
		h.log.Debug("a caller got no answer", "err", err)
	}
}

// authorize lets root and the console user in. The mode of the socket says nearly the
// same, but for the group, which other people are in.
func (h *hostd) authorize(ctx context.Context, c *net.UnixConn) error {
	uid, err := h.o.PeerUID(c)
	if err != nil {
		return err
	}
	if uid == 0 {
		return nil
	}
	user := h.wanted().Host.User
	allowed, err := h.o.UserID(ctx, user)
	if err != nil {
		return err
	}
	if uid != allowed {
		return fmt.Errorf("user %d is neither root nor %s", uid, user)
	}
	return nil
}

func (h *hostd) answerOne(ctx context.Context, c *net.UnixConn) error {
	if err := c.SetReadDeadline(time.Now().Add(h.o.Patience)); err != nil {
		return err
	}
	verb, err := readVerb(c)
	if err == nil {
		err = h.do(ctx, verb)
	}
	line, encoding := encode(h.answer(err))
	if encoding != nil {
		return encoding
	}
	if err := c.SetWriteDeadline(time.Now().Add(h.o.Patience)); err != nil {
		return err
	}
	_, err = c.Write(line)
	return err
}

// readVerb reads one line, and nothing that is not in the closed set.
func readVerb(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxRequest)).ReadBytes('\n')
	if err != nil {
		return "", errors.New("the request is not one line of JSON that ends in time")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var q document.HostdRequest
	if err := dec.Decode(&q); err != nil {
		return "", errors.New("the request is not one of ours")
	}
	if q.Verb != document.HostdStatus && q.Verb != document.HostdArm {
		return "", fmt.Errorf("unknown verb %.32q", q.Verb)
	}
	return q.Verb, nil
}

func (h *hostd) do(ctx context.Context, verb string) error {
	// What is asked for is asked for by whoever has read the newest configuration.
	err := h.readConfig()
	h.recordTrouble(ctx, aboutConfig, err)
	if verb != document.HostdArm {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, armTimeout)
	defer cancel()
	if err := h.armFirewall(ctx); err != nil {
		return err
	}
	h.lookForSession(ctx)
	return nil
}

// lookForSession looks whether there is a session now, for a guest that needs one. One
// that cannot be seen counts as none, and says nothing about the firewall.
func (h *hostd) lookForSession(ctx context.Context) {
	up, err := h.o.Mac.Session.Aqua(ctx, h.wanted().Host.User)
	if err != nil {
		h.recordTrouble(ctx, aboutSession, fmt.Errorf("looking for it: %w", err))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.session = err == nil && up
}
