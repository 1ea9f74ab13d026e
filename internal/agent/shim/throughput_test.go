package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime/debug"
	"testing"

	"google.golang.org/grpc"

	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/guest"
)

// What a port's connection takes between the agent and a guest's agent: through the shim's socket and gRPC.
// The guest is one that sends, or takes, as fast as it can: no process is in the way.

// guestPiece is how much guests' agents send at once, and passed how much goes through in one round.
const (
	guestPiece = 4 << 10
	passed     = 1 << 20
)

func BenchmarkPortFromGuest(b *testing.B) {
	conn := benchPort(b, portSends)
	b.SetBytes(passed)
	for b.Loop() {
		if _, err := io.CopyN(io.Discard, struct{ io.Reader }{conn}, passed); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPortToGuest(b *testing.B) {
	conn, piece := benchPort(b, portTakes), make([]byte, framePiece)
	b.SetBytes(passed)
	for b.Loop() {
		for range passed / len(piece) {
			if _, err := conn.Write(piece); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkExec is a command that prints and ends at once.
func BenchmarkExec(b *testing.B) {
	a := benchAttempt(b)
	for b.Loop() {
		code, err := Exec(b.Context(), a, vm.GuestCommand{Argv: []string{"echo"}, Bare: true}, vm.Streams{Stdout: io.Discard})
		if code != 0 || err != nil {
			b.Fatal(code, err)
		}
	}
}

// benchAttempt collects garbage as a shim does.
func benchAttempt(b *testing.B) string {
	b.Helper()
	before := debug.SetGCPercent(gcPercent)
	b.Cleanup(func() { debug.SetGCPercent(before) })
	inside := guest.Dial(serveRaw(b), guest.Options{})
	b.Cleanup(func() { _ = inside.Close() })
	return serveAttempt(b, inside).dir
}

func benchPort(b *testing.B, port uint16) net.Conn {
	b.Helper()
	conn, err := Dial(b.Context(), benchAttempt(b), port)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// The ports of the guest.
const portSends, portTakes uint16 = 1001, 1002

// serveRaw is a guest's agent whose messages are written out, so that it takes little time itself.
func serveRaw(b *testing.B) (socket string) {
	b.Helper()
	socket = filepath.Join(b.TempDir(), "control.sock")
	l, err := hostos.ListenUnix(socket)
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "Agent", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "ResolveIP", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return rawField(1, []byte("192.168.64.7")), decode(new([]byte))
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Exec", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			return rawExec(s)
		}}},
	}, nil)
	go func() { _ = server.Serve(l) }()
	b.Cleanup(server.Stop)
	return socket
}

func rawExec(s grpc.ServerStream) error {
	var asked []byte
	if err := s.RecvMsg(&asked); err != nil {
		return err
	}
	says := func(text []byte) []byte { return rawField(2, rawField(1, text)) }
	switch ports := []byte(fmt.Sprint(portSends, portTakes)); {
	case bytes.Contains(asked, ports[:4]):
		err, piece := s.SendMsg(says([]byte("."))), says(make([]byte, guestPiece))
		for err == nil {
			err = s.SendMsg(piece)
		}
		return err
	case bytes.Contains(asked, ports[5:]):
		err := s.SendMsg(says([]byte(".")))
		for err == nil {
			err = s.RecvMsg(&asked)
		}
		return err
	default: // also the question what it can do
		return errors.Join(s.SendMsg(says([]byte("yes /usr\n"))), s.SendMsg(rawField(1, nil)))
	}
}

func rawField(n byte, body []byte) []byte {
	b := []byte{n<<3 | 2}
	size := len(body)
	for ; size >= 0x80; size >>= 7 {
		b = append(b, byte(size)|0x80)
	}
	return append(append(b, byte(size)), body...)
}

// rawCodec has bytes for messages.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append((*v.(*[]byte))[:0], data...)
	return nil
}
