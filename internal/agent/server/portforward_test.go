package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// dialer as kubectl has it.
func (b *bench) dialer(transport string) httpstream.Dialer {
	b.t.Helper()
	target := &url.URL{Scheme: "https", Host: b.addr, Path: "/portForward/ci/build"}
	if transport == "WebSocket" {
		d, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, b.config("good"))
		if err != nil {
			b.t.Fatal(err)
		}
		return d
	}
	trip, upgrader, err := spdy.RoundTripperFor(b.config("good"))
	if err != nil {
		b.t.Fatal(err)
	}
	return spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: trip}, http.MethodPost, target)
}

// forward makes a port of the client's lead to one of the guest; it returns the
// address of the first.
func (b *bench) forward(transport string, port int) string {
	b.t.Helper()
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.NewOnAddressesForStreaming(b.dialer(transport), []string{"127.0.0.1"}, []string{fmt.Sprint(":", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f.ForwardPorts() }()
	b.t.Cleanup(func() {
		close(stop)
		<-done //nolint:errcheck // it was stopped
	})
	select {
	case <-ready:
	case err := <-done:
		b.t.Fatal(err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", ports[0].Local)
}

// listen has a server in the guest, and returns what dials it.
func listen(t *testing.T, serve func(*net.TCPConn)) func(uint16) (net.Conn, error) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if tcp, ok := conn.(*net.TCPConn); ok {
					serve(tcp)
				}
			}()
		}
	}()
	return func(uint16) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }
}

// talk sends text, ends it, and returns what comes back.
func talk(t *testing.T, address string, text []byte) ([]byte, error) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	go func() {
		_, _ = conn.Write(text)
		closeWrite(conn)
	}()
	return io.ReadAll(conn)
}

func TestPortForward(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 256<<10)
	for _, transport := range transports[:2] {
		t.Run(transport, func(t *testing.T) {
			b := newBench(t, nil)
			// It answers when all has come: the half-close arrives.
			b.guests.dial = listen(t, func(c *net.TCPConn) {
				all, _ := io.ReadAll(c)
				_, _ = c.Write(all)
			})
			address := b.forward(transport, 8080)
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					if got, err := talk(t, address, data); err != nil || !bytes.Equal(got, data) {
						t.Errorf("%d bytes, %v", len(got), err)
					}
				})
			}
			all.Wait()
		})
	}
}

// open makes the two streams of one connection.
func open(t *testing.T, conn httpstream.Connection, port string) (data, failure httpstream.Stream) {
	t.Helper()
	streams := map[string]httpstream.Stream{}
	for _, kind := range []string{"error", "data"} {
		stream, err := conn.CreateStream(http.Header{"Streamtype": {kind}, "Port": {port}, "Requestid": {"0"}})
		if err != nil {
			t.Fatal(err)
		}
		streams[kind] = stream
	}
	return streams["data"], streams["error"]
}

func TestPortForwardToAPortNobodyListensOn(t *testing.T) {
	for _, late := range []bool{true, false} {
		for _, transport := range transports[:2] {
			b := newBench(t, nil)
			opened := make(chan struct{})
			b.guests.dial = func(uint16) (net.Conn, error) {
				<-opened
				if late {
					return refusing{}, nil
				}
				return nil, ErrPortRefused
			}
			conn, _, err := b.dialer(transport).Dial("portforward.k8s.io")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, failure := open(t, conn, "8080")
			close(opened)
			text, _ := io.ReadAll(failure)
			const want = "error forwarding port 8080 to pod build, uid uid-1: dial tcp localhost:8080: connect: connection refused"
			if string(text) != want {
				t.Errorf("%s: told %q, want %q", transport, text, want)
			}
		}
	}
}

// refusing is a connection that is found out to be none when it is read.
type refusing struct{ net.Conn }

func (refusing) Read([]byte) (int, error)    { return 0, fmt.Errorf("reading: %w", ErrPortRefused) }
func (refusing) Write(p []byte) (int, error) { return len(p), nil }
func (refusing) Close() error                { return nil }

// A guest's server is told when the client of the API is gone.
func TestPortForwardEndsWithItsClient(t *testing.T) {
	for _, transport := range transports[:2] {
		b := newBench(t, nil)
		connected, ended := make(chan struct{}), make(chan struct{})
		b.guests.dial = listen(t, func(c *net.TCPConn) {
			close(connected)
			// It never speaks, and never closes by itself.
			_, _ = io.Copy(io.Discard, c)
			for piece := make([]byte, 32<<10); ; {
				if _, err := c.Write(piece); err != nil {
					close(ended)
					return
				}
			}
		})
		conn, _, err := b.dialer(transport).Dial("portforward.k8s.io")
		if err != nil {
			t.Fatal(err)
		}
		open(t, conn, "80")
		<-connected
		conn.Close()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Errorf("%s: the guest was not told", transport)
		}
	}
}

// silent is a server in a guest that says nothing, and does not mind that nothing more comes.
type silent struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (s *silent) Read([]byte) (int, error) {
	<-s.closed
	return 0, net.ErrClosed
}
func (*silent) Write(p []byte) (int, error) { return len(p), nil }
func (*silent) CloseWrite() error           { return nil }
func (s *silent) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// A place of the server's is given back with its client, also where the guest holds on.
func TestPortForwardToASilentGuestEndsWithItsClient(t *testing.T) {
	for _, transport := range transports[:2] {
		b := newBench(t, nil)
		guest, dialled := &silent{closed: make(chan struct{})}, make(chan struct{})
		b.guests.dial = func(uint16) (net.Conn, error) {
			close(dialled)
			return guest, nil
		}
		conn, _, err := b.dialer(transport).Dial("portforward.k8s.io")
		if err != nil {
			t.Fatal(err)
		}
		open(t, conn, "80")
		<-dialled
		conn.Close()
		select {
		case <-guest.closed:
		case <-time.After(patience):
			t.Errorf("%s: the connection is kept", transport)
			guest.Close()
		}
	}
}
