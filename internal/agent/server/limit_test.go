package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"testing"
	"time"
)

// Strangers who come by the thousand, and say nothing, keep nobody out, and end no connection
// of who may be here.
func TestSilentStrangersKeepNobodyOut(t *testing.T) {
	b := newBench(t, nil)
	known := b.client()
	b.expect(known, "/healthz", "good", http.StatusOK, "ok")
	for range mostConnections + mostStrangers {
		conn, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	b.expect(b.client(), "/healthz", "good", http.StatusOK, "ok")
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if !got.Reused {
			t.Error("the connection of a known client was closed")
		}
	}}), http.MethodGet, "https://"+b.addr+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer good")
	answer, err := known.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Error(answer.Status)
	}
}

// Who was refused has no connection to keep.
func TestWhoIsRefusedIsSentOff(t *testing.T) {
	b := newBench(t, nil)
	b.api.tokens["nobody"] = "bob"
	for token, code := range map[string]int{"invented": http.StatusUnauthorized, "nobody": http.StatusForbidden} {
		conn, err := tls.Dial("tcp", b.addr, &tls.Config{InsecureSkipVerify: true}) // who it is does not matter
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET /pods HTTP/1.1\r\nHost: mac\r\nAuthorization: Bearer %s\r\n\r\n", token); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		from := bufio.NewReader(conn)
		answer, err := http.ReadResponse(from, nil)
		if err != nil || answer.StatusCode != code {
			t.Fatalf("%s: %+v, %v", token, answer, err)
		}
		if _, err := io.Copy(io.Discard, from); err != nil {
			t.Errorf("%s: the connection is kept: %v", token, err)
		}
		_ = conn.Close()
	}
}

// Who is no stranger has a place until the connection ends, and there are only so many.
func TestPlacesOfConnections(t *testing.T) {
	l := &limited{mostKnown: 1, mostStrangers: 2}
	conn := func(from string) *counted {
		near, far := net.Pipe()
		_ = far.Close()
		return &counted{Conn: near, in: l, from: networkOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)))}
	}
	first, second := conn("192.0.2.1:1"), conn("192.0.2.1:2")
	for _, c := range []*counted{first, second} {
		if out := l.enter(c); out != nil {
			t.Fatal("there was no place")
		}
	}
	for _, c := range []struct {
		conn *counted
		has  bool
	}{{first, true}, {first, true}, {second, false}} {
		if l.admit(c.conn) != c.has {
			t.Errorf("a place for %s: %t", c.conn.from, !c.has)
		}
	}
	_ = first.Close()
	_ = first.Close()
	if !l.admit(second) || len(l.strangers) > 0 || l.known != 1 {
		t.Errorf("%d strangers, %d known", len(l.strangers), l.known)
	}
	// One that was pushed out in this moment has a place no more, and takes none.
	_ = second.Close()
	if !l.admit(second) || l.known != 0 {
		t.Errorf("%d known", l.known)
	}
}

// Who takes most of the places of strangers loses them first; a network of IPv6 is one.
func TestCrowding(t *testing.T) {
	l := &limited{mostStrangers: 4}
	enter := func(from string) (out string) {
		c := &counted{in: l, from: networkOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)))}
		if gone := l.enter(c); gone != nil {
			return gone.from.String()
		}
		return ""
	}
	for _, c := range []struct{ from, out string }{
		{"192.0.2.1:1", ""},
		{"[2001:db8::1]:1", ""},
		{"[2001:db8::2]:1", ""},
		{"[::ffff:192.0.2.2]:1", ""},
		{"192.0.2.3:1", "2001:db8::/64"},
		{"192.0.2.3:2", "192.0.2.3/32"},
		{"192.0.2.3:3", "192.0.2.3/32"},
		{"192.0.2.4:1", "192.0.2.1/32"},
	} {
		if out := enter(c.from); out != c.out {
			t.Errorf("from %s: %q is out, want %q", c.from, out, c.out)
		}
	}
}

func TestPlaces(t *testing.T) {
	p := newPlaces(mostStreams, mostOfPod)
	for i := range mostOfPod {
		if !p.take("a") {
			t.Fatalf("no place for request %d of a Pod", i)
		}
	}
	if p.take("a") {
		t.Error("one Pod has more places than it may")
	}
	for i := mostOfPod; i < mostStreams; i++ {
		if !p.take(fmt.Sprint("b", i%2)) {
			t.Fatalf("no place for request %d", i)
		}
	}
	if p.take("c") {
		t.Error("there are more places than there may be")
	}
	p.free("a")
	if !p.take("c") || p.taken() != mostStreams {
		t.Errorf("%d places are taken", p.taken())
	}
}
