package shim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// kind of a frame. After the answer to a request for a stream both sides send frames: one
// byte of kind, four of length, big-endian, then that many bytes. These numbers are part
// of version v1; a kind that is not known is skipped.
type kind byte

const (
	// stdin carries input, to the shim; stdinEnd says that no more will come.
	stdin    kind = 0
	stdinEnd kind = 1
	// stdout and stderr carry output, from the shim.
	stdout kind = 2
	stderr kind = 3
	// resize is a new size of the terminal: rows and columns, two bytes each.
	resize kind = 4
	// ended is the shim's last frame: a reply with an error or an end.
	ended kind = 5
	// credit lets the other side send more: one byte of kind, four of a number of bytes.
	credit kind = 6
)

const (
	// framePiece is how much one frame of data carries, in bytes.
	framePiece = 32 << 10
	// maxFrame bounds what is accepted: the end of a command with its message.
	maxFrame = maxReply
	// window is how many bytes of each kind of data may be on the way, or wait for their
	// reader, before credit is given.
	window = 128 << 10

	frameHead = 5
)

// errProtocol: the other side does not speak as was agreed.
var errProtocol = errors.New("the stream of a VM does not follow its protocol")

func appendFrame(b []byte, k kind, payload []byte) []byte {
	b = append(b, byte(k))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload))) // maxFrame at most
	return append(b, payload...)
}

// readFrame reads one frame. The payload is in buf, or in a bigger one where that is too
// small, and good until the next.
func readFrame(r io.Reader, buf []byte) (kind, []byte, error) {
	buf = slices.Grow(buf[:0], frameHead)[:frameHead]
	if _, err := io.ReadFull(r, buf); err != nil {
		return 0, nil, err
	}
	k, n := kind(buf[0]), binary.BigEndian.Uint32(buf[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes", errProtocol, n)
	}
	buf = slices.Grow(buf[:0], int(n))[:n]
	_, err := io.ReadFull(r, buf)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return k, buf, err
}

func sizePayload(s vm.TerminalSize) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, s.Rows), s.Cols)
}

func parseSize(payload []byte) (vm.TerminalSize, error) {
	if len(payload) < 4 {
		return vm.TerminalSize{}, fmt.Errorf("%w: a size of %d bytes", errProtocol, len(payload))
	}
	return vm.TerminalSize{Rows: binary.BigEndian.Uint16(payload), Cols: binary.BigEndian.Uint16(payload[2:])}, nil
}

func creditPayload(k kind, n int) []byte {
	return binary.BigEndian.AppendUint32([]byte{byte(k)}, uint32(n)) // window at most
}

func parseCredit(payload []byte) (kind, int, error) {
	if len(payload) < frameHead {
		return 0, 0, fmt.Errorf("%w: credit of %d bytes", errProtocol, len(payload))
	}
	return kind(payload[0]), int(binary.BigEndian.Uint32(payload[1:])), nil
}
