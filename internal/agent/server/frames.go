package server

import (
	"bufio"
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

// fault is what a client is cut off for.
type fault string

func (f fault) Error() string { return string(f) }

const (
	errFrame    = fault("the client sends frames that are longer than any client's")
	errControl  = fault("the client sends control frames as no client does")
	errLarge    = fault("clients send too much in large messages at once")
	errUnpaired = fault("the client opens streams and does not use them")
)

// frames judges the frames that a client sends, until the connection has ended. Both may be
// called at once.
type frames interface {
	// next looks at the frame that comes next, without taking it, and returns its length with
	// its head, in bytes. An error that is a fault is the client's.
	next(from *bufio.Reader) (int64, error)
	end()
}

// frameReader reads what its frames let pass. What is judged as a whole is read as a whole: a
// library that has the beginning of a frame inflates it.
type frameReader struct {
	from   *bufio.Reader
	frames frames
	// left of the frame that was let pass is not read yet.
	left int64
	// cutOff is told why a client is; fault is that.
	cutOff func(error)
	fault  error
}

func newFrameReader(from io.Reader, frames frames, cutOff func(error)) *frameReader {
	return &frameReader{from: bufio.NewReaderSize(from, maxControlFrame+spdyHead), frames: frames, cutOff: cutOff}
}

func (r *frameReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// next lets a frame pass. After a fault nothing does.
func (r *frameReader) next() (err error) {
	if r.fault != nil {
		return r.fault
	}
	r.left, err = r.frames.next(r.from)
	if errors.As(err, new(fault)) {
		r.left, r.fault = 0, err
		r.cutOff(err)
	}
	return err
}

// spdyFrames are those of SPDY/3.1.
type spdyFrames struct {
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

func (f *spdyFrames) next(from *bufio.Reader) (int64, error) {
	head, err := from.Peek(spdyHead)
	if err != nil {
		return 0, err
	}
	length, most := spdyLength(head), uint32(maxDataFrame)
	if isControl(head) {
		most = maxControlFrame
	}
	whole := spdyHead + int(length)
	if err := longer(length, most); err != nil || !isControl(head) {
		return int64(whole), err
	}
	frame, err := from.Peek(whole)
	if err != nil {
		return 0, err
	}
	return int64(whole), f.judge(frame)
}

func isControl(head []byte) bool { return head[0]&0x80 != 0 }

func spdyLength(head []byte) uint32 { return binary.BigEndian.Uint32(head[4:]) & 0xffffff }

// judge reads a control frame. One that says to be longer than the library finds it is one
// within which another begins.
func (f *spdyFrames) judge(frame []byte) error {
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

// taken notes that the message before is no longer kept.
func (f *webSocketFrames) taken() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release()
}

// take makes room for a message.
func (f *webSocketFrames) take(length uint64) error {
	if err := longer(length, maxMessage); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if length <= smallMessage || f.ended {
		return nil
	}
	if !f.large.TryAcquire(int64(length)) { // maxMessage at most
		return errLarge
	}
	f.held = int64(length)
	return nil
}

func (f *webSocketFrames) next(from *bufio.Reader) (int64, error) {
	f.taken() // whoever waits for another has read it
	head, err := from.Peek(2)
	if err != nil {
		return 0, err
	}
	if head, err = from.Peek(webSocketHead(head)); err != nil {
		return 0, err
	}
	length := uint64(head[1] & 0x7f)
	switch length {
	case 126:
		length = uint64(binary.BigEndian.Uint16(head[2:]))
	case 127:
		length = binary.BigEndian.Uint64(head[2:])
	}
	if err := f.take(length); err != nil {
		return 0, err
	}
	return int64(len(head)) + int64(length), nil // maxMessage at most
}

// webSocketHead is the length of a head, of which its first two bytes tell.
func webSocketHead(head []byte) int {
	need := 2
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

// framed is a connection within another, whose frames are judged.
type framed struct {
	net.Conn
	reader *frameReader
}

func (f framed) Read(p []byte) (int, error) { return f.reader.Read(p) }
