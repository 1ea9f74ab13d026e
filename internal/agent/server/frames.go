package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// What a client may send in one frame, in bytes: the libraries of SPDY and WebSocket keep frames
// whole, SPDY's up to 250 of them, and take megabytes in each. Clients send some 32 KiB of data
// at once, and heads of some hundred bytes, which are compressed.
const (
	maxDataFrame    = 128 << 10
	maxControlFrame = 4 << 10
	maxMessage      = 256 << 10
)

var (
	errFrame    = errors.New("the client sends frames that are longer than any client's")
	errUnpaired = errors.New("the client opens streams and does not use them")
)

// frames looks at the heads of the frames that a client sends, as they come in pieces.
type frames interface{ pass(p []byte) error }

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
}

// spdyHead is its length; synStream the type of the frame that opens a stream.
const (
	spdyHead  = 8
	synStream = 1
)

func (f *spdyFrames) pass(p []byte) error {
	for len(p) > 0 {
		rest, whole := f.next(p, func([]byte) int { return spdyHead })
		if p = rest; !whole {
			continue
		}
		if err := f.judge(f.head); err != nil {
			return err
		}
		f.follow(uint64(f.length()))
	}
	return nil
}

func (f *spdyFrames) length() uint32 { return binary.BigEndian.Uint32(f.head[4:]) & 0xffffff }

func (f *spdyFrames) judge(head []byte) error {
	if control := head[0]&0x80 != 0; !control {
		return longer(f.length(), maxDataFrame)
	}
	if binary.BigEndian.Uint16(head[2:]) == synStream {
		if f.opened++; f.opened-f.served.Load() > f.most {
			return errUnpaired
		}
	}
	return longer(f.length(), maxControlFrame)
}

func longer[N uint32 | uint64](length, most N) error {
	if length > most {
		return fmt.Errorf("%w: %d bytes", errFrame, length)
	}
	return nil
}

// webSocketFrames are those of RFC 6455.
type webSocketFrames struct{ heads }

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
		if err := longer(length, maxMessage); err != nil {
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
}

func (f framed) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if bad := f.frames.pass(p[:n]); bad != nil {
		return 0, bad
	}
	return n, err
}
