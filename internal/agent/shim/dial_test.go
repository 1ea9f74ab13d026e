package shim

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestDial(t *testing.T) {
	haveNetcat(t)
	a := serveAttempt(t, hostGuest{})
	port := listenTCP(t, func(c *net.TCPConn) {
		// Answers only after the other side's end: both ways are closed one by one.
		data, _ := io.ReadAll(c)
		_, _ = fmt.Fprintf(c, "%d %x", len(data), sha256.Sum256(data))
	})
	conn, err := Dial(bounded(t), a.dir, port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const size = 8<<20 + 3
	if _, err := io.Copy(conn, random(9, size)); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if want := fmt.Sprintf("%d %x", size, sum(t, random(9, size))); string(got) != want || err != nil {
		t.Errorf("%q, err %v", got, err)
	}
}

// A server that is told to listen on localhost may take ::1 alone. A probe does not reach it,
// as it reaches none on a node that asks at the Pod's address.
func TestDialToTheOtherLoopback(t *testing.T) {
	haveNetcat(t)
	a := serveAttempt(t, hostGuest{})
	port := listenOn(t, "::1", func(c *net.TCPConn) { _, _ = c.Write([]byte("hello")) })
	conn, err := Dial(bounded(t), a.dir, port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); string(got) != "hello" || err != nil {
		t.Errorf("%q, err %v", got, err)
	}
	probe, err := DialReserved(bounded(t), a.dir, port)
	if err == nil {
		_, err = probe.Read(make([]byte, 1))
		_ = probe.Close()
	}
	if !errors.Is(err, ErrPortRefused) {
		t.Errorf("a probe: err %v", err)
	}
}

func TestDialReadsAsTheGuestSends(t *testing.T) {
	haveNetcat(t)
	a := serveAttempt(t, hostGuest{})
	const size = 16<<20 + 1
	port := listenTCP(t, func(c *net.TCPConn) { _, _ = io.Copy(c, random(5, size)) })
	conn, err := Dial(bounded(t), a.dir, port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if sum(t, conn) != sum(t, random(5, size)) {
		t.Error("it is not what was sent")
	}
}

// nobodysPort is one that nobody listens on.
func nobodysPort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", ":0") // free at either address of localhost
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func TestDialToNobody(t *testing.T) {
	haveNetcat(t)
	a := serveAttempt(t, hostGuest{})
	for name, dial := range map[string]func(context.Context, string, uint16) (net.Conn, error){"a person": Dial, "a probe": DialReserved} {
		conn, err := dial(bounded(t), a.dir, nobodysPort(t))
		if err == nil {
			// A busy host says so late.
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
		if !errors.Is(err, ErrPortRefused) {
			t.Errorf("%s: err %v", name, err)
		}
	}
}

// unwritable fails to send: the other side has closed, with its last word on the way.
type unwritable struct{ net.Conn }

func (unwritable) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A client that speaks first has sent much by the time that the guest says that nobody
// listens. Who closes as soon as sending fails still reads why.
func TestARefusalIsReadByWhoSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		conn := &portConn{link: newLink(unwritable{ours}, []kind{stdout}, []kind{stdin})}
		go conn.link.receive(bufio.NewReader(ours))
		time.AfterFunc(time.Second, func() {
			newLink(theirs, nil, nil).finish(reply{Error: &refusal{Code: refusedPort}})
		})
		if _, err := conn.Write([]byte("hello")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("sending: %v", err)
		}
		_ = conn.Close()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, ErrPortRefused) {
			t.Errorf("err %v", err)
		}
	})
}

func TestAClosedConnectionEndsInTheGuest(t *testing.T) {
	haveNetcat(t)
	a := serveAttempt(t, hostGuest{})
	ended := make(chan struct{})
	port := listenTCP(t, func(c *net.TCPConn) {
		defer close(ended)
		_, _ = c.Write([]byte("hello"))
		_, _ = io.Copy(io.Discard, c)
	})
	conn, err := Dial(bounded(t), a.dir, port)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	receive(t, "the other side's end", ended)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("it can still be read")
	}
}
