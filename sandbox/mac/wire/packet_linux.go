package wire

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxPacket bounds one message between a shim and pid 1; arguments and
// environment of one sudo have to fit.
const maxPacket = 160 << 10

// Packets frames JSON messages over a SOCK_SEQPACKET socket, one message a
// packet, so that descriptors arrive with the message they belong to.
type Packets struct {
	conn *net.UnixConn
}

// NewPackets wraps a "unixpacket" connection.
func NewPackets(conn *net.UnixConn) *Packets { return &Packets{conn: conn} }

// Dial connects a shim to its Mac.
func Dial() (*Packets, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: SocketPath, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("reaching pid 1: %w", err)
	}
	return NewPackets(conn), nil
}

// Close ends the connection.
func (p *Packets) Close() error { return p.conn.Close() }

// Send writes v, and with it copies of the descriptors.
func (p *Packets) Send(v any, fds ...int) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	if len(data) > maxPacket {
		return fmt.Errorf("message of %d bytes: %w", len(data), syscall.EMSGSIZE)
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if _, _, err := p.conn.WriteMsgUnix(data, oob, nil); err != nil {
		return fmt.Errorf("sending a message: %w", err)
	}
	return nil
}

// Receive reads one message into v and returns the descriptors that came with
// it, which the caller closes. The end of the connection is io.EOF, unwrapped.
func (p *Packets) Receive(v any) ([]*os.File, error) {
	data := make([]byte, maxPacket)
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, _, _, err := p.conn.ReadMsgUnix(data, oob)
	if err != nil {
		return nil, err
	}
	files, err := filesFrom(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data[:n], v); err != nil {
		closeAll(files)
		return nil, fmt.Errorf("decoding a message: %w", err)
	}
	return files, nil
}

func filesFrom(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("parsing passed descriptors: %w", err)
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("parsing passed descriptors: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
