package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/spdystream/spdy"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// What somebody who may exec into a Pod of their own, or nobody, sends to an agent that
// others need.

// spdyConn is a connection for exec, without streams.
func (b *bench) spdyConn(query string) httpstream.Connection {
	b.t.Helper()
	target := &url.URL{Scheme: "https", Host: b.addr, Path: execPath, RawQuery: query}
	trip, upgrader, err := clientspdy.RoundTripperFor(b.config("good"))
	if err != nil {
		b.t.Fatal(err)
	}
	conn, _, err := clientspdy.NewDialerForStreaming(upgrader, &http.Client{Transport: trip}, http.MethodPost, target).Dial(remotecommand.StreamProtocolV4Name)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Streams of one kind do not stand for those that were asked for: nothing begins, and the
// agent lives.
func TestStreamsOfAnotherKind(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	b := newBench(t, clock)
	began := make(chan struct{})
	b.guests.exec = func(context.Context, vm.GuestCommand, vm.Streams) (int, error) {
		close(began)
		return 0, nil
	}
	conn := b.spdyConn("command=id&input=1&output=1")
	for _, kind := range []string{"error", "error", "error", "debug"} {
		// Those that are refused may be gone before they are here.
		_, _ = conn.CreateStream(http.Header{remotecommand.StreamType: {kind}})
	}
	await(t, "the server waits for streams", clock.HasWaiters)
	clock.Step(remotecommand.DefaultStreamCreationTimeout)
	select {
	case <-conn.CloseChan():
	case <-began:
		t.Error("a command began without its streams")
	case <-time.After(patience):
		t.Error("the connection is still there")
	}
	b.expect(b.client(), "/healthz", "good", http.StatusOK, "ok")
}

func TestNoHTTP2(t *testing.T) {
	b := newBench(t, nil)
	conn, err := tls.Dial("tcp", b.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) // who it is does not matter
	if err == nil {
		t.Errorf("a client that speaks HTTP/2 alone is served %q", conn.ConnectionState().NegotiatedProtocol)
		_ = conn.Close()
	}
}

// A body that does not come holds no connection.
func TestABodyThatDoesNotCome(t *testing.T) {
	b := newBench(t, nil)
	for _, head := range []string{"Content-Length: 1", "Transfer-Encoding: chunked"} {
		conn, err := tls.Dial("tcp", b.addr, &tls.Config{InsecureSkipVerify: true}) // who it is does not matter
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "POST /pods HTTP/1.1\r\nHost: mac\r\n%s\r\n\r\n", head); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		from := bufio.NewReader(conn)
		answer, err := http.ReadResponse(from, nil)
		if err != nil || answer.StatusCode != http.StatusBadRequest {
			t.Fatalf("%s: %+v, %v", head, answer, err)
		}
		if _, err := io.Copy(io.Discard, from); err != nil {
			t.Errorf("%s: the connection is kept: %v", head, err)
		}
		_ = conn.Close()
	}
}

// greedy fails the test when a reader asks for more and more at once.
type greedy struct {
	io.Reader
	most int
}

func (g *greedy) Read(p []byte) (int, error) {
	g.most = max(g.most, len(p))
	return g.Reader.Read(p)
}

func TestASizeWithoutEnd(t *testing.T) {
	digits := &greedy{Reader: io.MultiReader(strings.NewReader(`{"Width":80,"Height":24}{"Width":`), strings.NewReader(strings.Repeat("1", 4<<20)))}
	sizes := resizes(digits)
	if first := <-sizes; first.Width != 80 || first.Height != 24 {
		t.Errorf("the first size is %+v", first)
	}
	if second, more := <-sizes; more {
		t.Errorf("a size without end is %+v", second)
	}
	if digits.most > 64<<10 {
		t.Errorf("%d bytes of a size were read at once", digits.most)
	}
}

// What a client opens after its command began is nobody's, and harms nobody.
func TestStreamsThatComeLate(t *testing.T) {
	b := newBench(t, nil)
	began, end := make(chan struct{}), make(chan struct{})
	b.guests.exec = func(context.Context, vm.GuestCommand, vm.Streams) (int, error) {
		close(began)
		<-end
		return 0, nil
	}
	conn := b.spdyConn("command=id&output=1")
	failure, err := conn.CreateStream(http.Header{remotecommand.StreamType: {"error"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.CreateStream(http.Header{remotecommand.StreamType: {"stdout"}}); err != nil {
		t.Fatal(err)
	}
	<-began
	for _, kind := range []string{"stdin", "resize"} {
		if _, err := conn.CreateStream(http.Header{remotecommand.StreamType: {kind}}); err != nil {
			t.Fatal(err)
		}
	}
	close(end)
	if said, err := io.ReadAll(failure); err != nil || !strings.Contains(string(said), "Success") {
		t.Errorf("%s, %v", said, err)
	}
}

// A client that is gone is noticed, also behind sizes of a terminal that nobody takes.
func TestAClientThatIsGoneBehindItsSizes(t *testing.T) {
	b := newBench(t, clocktesting.NewFakeClock(time.Now()))
	began, ended := make(chan struct{}), make(chan struct{})
	b.guests.exec = func(ctx context.Context, _ vm.GuestCommand, _ vm.Streams) (int, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return 0, context.Cause(ctx)
	}
	conn, _ := b.upgradedConn("POST " + execPath + "?command=id&output=1&tty=1 HTTP/1.1\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n")
	var sent []spdy.Frame
	for i, kind := range []string{"error", "stdout", "resize"} {
		sent = append(sent, opensStream(i, http.Header{"streamtype": {kind}}))
	}
	client := newSPDYClient(t)
	if _, err := conn.Write(client.frames(t, sent...)); err != nil {
		t.Fatal(err)
	}
	<-began
	size := &spdy.DataFrame{StreamId: 5, Data: []byte(`{"Width":80,"Height":24}`)}
	if _, err := conn.Write(client.frames(t, slices.Repeat([]spdy.Frame{size}, 200)...)); err != nil {
		t.Fatal(err)
	}
	_ = conn.NetConn().Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the command goes on")
	}
}

func TestPortsWithoutEnd(t *testing.T) {
	b := newBench(t, nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.addr+"/portForward/ci/build?port=1"+strings.Repeat(",1", mostForwards), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer good", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-Websocket-Version": "13", "Sec-Websocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
	} {
		request.Header.Set(name, value)
	}
	answer, err := b.client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "ports are more than") {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
}
