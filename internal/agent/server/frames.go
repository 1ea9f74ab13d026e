package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/moby/spdystream/spdy"
	"golang.org/x/sync/semaphore"
)

// What a client may send in one frame, in bytes: the libraries of SPDY and WebSocket keep frames
// whole, SPDY's up to 250 of them, and take megabytes in each. Clients send some 32 KiB of data
// at once, and heads of some hundred bytes, which are compressed.
const (
	maxDataFrame    = 128 << 10
	maxControlFrame = 4 << 10
	// A head is for a stream: of what type it is, to which port, of which request. Compressed,
	// megabytes fit into a frame.
	mostFields = 16
	maxField   = 1 << 10
	// Some clients send an archive as one message. Those of more than smallMessage share
	// mostLarge, over all connections.
	smallMessage = 256 << 10
	maxMessage   = 32 << 20
	mostLarge    = 64 << 20
)

var (
	errFrame    = errors.New("the client sends frames that are longer than any client's")
	errControl  = errors.New("the client sends control frames as no client does")
	errLarge    = errors.New("clients send too much in large messages at once")
	errUnpaired = errors.New("the client opens streams and does not use them")
)

// frames looks at the heads of the frames that a client sends, as they come in pieces, until
// the connection has ended. Both may be called at once.
type frames interface {
	pass(p []byte) error
	end()
}

// heads collects the heads of frames and skips what is between them.
type heads struct {
	head []byte
	skip uint64
}

// next takes a head of the length that need tells of what there is of it. It reports that the
// head is whole, and what of p follows it.
func (h *heads) next(p []byte, need func(head []byte) int) (rest []byte, whole bool) {
	n := min(uint64(len(p)), h.skip)
	h.skip -= n
	p = p[n:]
	for len(p) > 0 && len(h.head) < need(h.head) {
		h.head = append(h.head, p[0])
		p = p[1:]
	}
	return p, len(h.head) > 0 && len(h.head) == need(h.head)
}

// follow skips what follows a head.
func (h *heads) follow(length uint64) { h.head, h.skip = h.head[:0], length }

// spdyFrames are those of SPDY/3.1.
type spdyFrames struct {
	heads
	// most streams may be opened without being served.
	most   int64
	opened int64
	served atomic.Int64
	// library reads control frames as that of the streams will, but for its bounds, from what
	// whole is given.
	library *spdy.Framer
	whole   bytes.Buffer
}

func newSPDYFrames(most int64) *spdyFrames {
	f := &spdyFrames{most: most}
	// It fails for a level of compression that does not exist alone.
	f.library, _ = spdy.NewFramerWithOptions(io.Discard, &f.whole, spdy.WithMaxHeaderCount(mostFields), spdy.WithMaxHeaderFieldSize(maxField))
	return f
}

// spdyHead is the length of a frame's head.
const spdyHead = 8

func (f *spdyFrames) pass(p []byte) error {
	for len(p) > 0 {
		rest, whole := f.next(p, spdyNeed)
		if p = rest; !whole {
			continue
		}
		if !isControl(f.head) {
			if err := longer(spdyLength(f.head), maxDataFrame); err != nil {
				return err
			}
			f.follow(uint64(spdyLength(f.head)))
			continue
		}
		if err := f.judge(f.head); err != nil {
			return err
		}
		f.follow(0)
	}
	return nil
}

func isControl(head []byte) bool { return head[0]&0x80 != 0 }

func spdyLength(head []byte) uint32 { return binary.BigEndian.Uint32(head[4:]) & 0xffffff }

// spdyNeed is how much of a frame is looked at: its head, and all of a control frame that is
// not too long.
func spdyNeed(head []byte) int {
	if len(head) < spdyHead || !isControl(head) || spdyLength(head) > maxControlFrame {
		return spdyHead
	}
	return spdyHead + int(spdyLength(head))
}

// judge reads a control frame. One that says to be longer than the library finds it is one
// within which another begins.
func (f *spdyFrames) judge(frame []byte) error {
	if err := longer(spdyLength(frame), maxControlFrame); err != nil {
		return err
	}
	f.whole.Write(frame)
	read, err := f.library.ReadFrame()
	if err != nil {
		return fmt.Errorf("%w: %w", errControl, err)
	}
	if f.whole.Len() > 0 {
		return fmt.Errorf("%w: its length is wrong", errControl)
	}
	switch read := read.(type) {
	case *spdy.SynStreamFrame:
		return f.opens(read)
	case *spdy.SynReplyFrame, *spdy.HeadersFrame:
		// We open no streams; and nobody would take such headers.
		return fmt.Errorf("%w: headers of a stream that is open", errControl)
	}
	return nil
}

func (f *spdyFrames) opens(stream *spdy.SynStreamFrame) error {
	for _, values := range stream.Headers {
		// The library makes many of one in which there are NULs.
		if len(values) > 1 {
			return fmt.Errorf("%w: a header has %d values", errControl, len(values))
		}
	}
	if f.opened++; f.opened-f.served.Load() > f.most {
		return errUnpaired
	}
	return nil
}

func longer[N uint32 | uint64](length, most N) error {
	if length > most {
		return fmt.Errorf("%w: %d bytes", errFrame, length)
	}
	return nil
}

// end has nothing to give back.
func (f *spdyFrames) end() {}

// webSocketFrames are those of RFC 6455.
type webSocketFrames struct {
	heads
	// large is what large messages of all connections share.
	large *semaphore.Weighted

	mu sync.Mutex
	// held of it is for the message that is kept until it is taken: then the next one is read.
	held  int64
	ended bool
}

// end gives back what a message held.
func (f *webSocketFrames) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.release()
}

func (f *webSocketFrames) release() {
	f.large.Release(f.held)
	f.held = 0
}

// take makes room for a message, once the one before it is no longer kept.
func (f *webSocketFrames) take(length uint64) error {
	if err := longer(length, maxMessage); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release()
	if length <= smallMessage || f.ended {
		return nil
	}
	if !f.large.TryAcquire(int64(length)) { //nolint:gosec // maxMessage at most
		return errLarge
	}
	f.held = int64(length) //nolint:gosec // likewise
	return nil
}

func (f *webSocketFrames) pass(p []byte) error {
	for len(p) > 0 {
		rest, whole := f.next(p, webSocketHead)
		if p = rest; !whole {
			continue
		}
		length := uint64(f.head[1] & 0x7f)
		switch length {
		case 126:
			length = uint64(binary.BigEndian.Uint16(f.head[2:]))
		case 127:
			length = binary.BigEndian.Uint64(f.head[2:])
		}
		if err := f.take(length); err != nil {
			return err
		}
		f.follow(length)
	}
	return nil
}

// webSocketHead is the length of a head, as far as that is known.
func webSocketHead(head []byte) int {
	need := 2
	if len(head) < need {
		return need
	}
	switch head[1] & 0x7f {
	case 126:
		need += 2
	case 127:
		need += 8
	}
	if masked := head[1]&0x80 != 0; masked {
		need += 4
	}
	return need
}

// framed is a connection within another, whose frames are looked at.
type framed struct {
	net.Conn
	frames frames
	// cutOff is told why a client is.
	cutOff func(error)
}

func (f framed) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if bad := f.frames.pass(p[:n]); bad != nil {
		f.cutOff(bad)
		return 0, bad
	}
	return n, err
}
