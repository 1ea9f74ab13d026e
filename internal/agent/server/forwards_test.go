package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/moby/spdystream/spdy"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	clocktesting "k8s.io/utils/clock/testing"
)

// count is how many connections streams have taken over.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// A client that opens streams and is gone leaves neither a connection nor who waits for it.
func TestAPortForwardThatIsCutLeavesNothing(t *testing.T) {
	for _, transport := range []string{"SPDY", "tunnel"} {
		t.Run(transport, func(t *testing.T) {
			b := newBench(t, nil)
			b.expect(b.client(), "/healthz", "good", http.StatusOK, "ok")
			before := runtime.NumGoroutine()
			for range 20 {
				client := newSPDYClient(t)
				var streams []spdy.Frame
				for i := range 100 {
					streams = append(streams, opensStream(i, streamHeaders("data", fmt.Sprint(i))))
				}
				conn, _ := b.upgradedConn(portForwardOver(transport))
				sent := client.frames(t, streams...)
				if transport == "tunnel" {
					sent = masked(sent)
				}
				if _, err := conn.Write(sent); err != nil {
					t.Fatal(err)
				}
				_ = conn.NetConn().Close()
			}
			await(t, "the connections are closed", func() bool { return b.server.taken.count() == 0 })
			await(t, "nobody waits for their streams", func() bool { return runtime.NumGoroutine() <= before+5 })
		})
	}
}

// Connections that the guest has ended are over, whether or not the client ends them: until it
// does, or a while is over, they count.
func TestForwardsThatTheGuestEnds(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	b := newBench(t, clock)
	b.guests.dial = func(uint16) (net.Conn, error) {
		near, far := net.Pipe()
		_ = far.Close()
		return near, nil
	}
	conn, _, err := b.dialer("SPDY").Dial("portforward.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	before := 0
	for round := range 4 {
		pairs := mostForwards
		if round > 0 {
			pairs /= 2 // the last of the round before may just be letting go
		}
		for i := range pairs {
			failure, err := conn.CreateStream(http.Header{"Streamtype": {"error"}, "Port": {"80"}, "Requestid": {fmt.Sprint(round, i)}})
			if err != nil {
				t.Fatal(err)
			}
			data, err := conn.CreateStream(http.Header{"Streamtype": {"data"}, "Port": {"80"}, "Requestid": {fmt.Sprint(round, i)}})
			if err != nil {
				t.Fatal(err)
			}
			// It is told of the end, and does not end them.
			if said, err := io.ReadAll(failure); err != nil || len(said) > 0 {
				t.Fatalf("%d: %s, %v", i, said, err)
			}
			if _, err := io.ReadAll(data); err != nil {
				t.Fatal(err)
			}
		}
		if round == 0 {
			_, failure := open(t, conn, "80")
			if said, _ := io.ReadAll(failure); !strings.Contains(string(said), ErrTooMany.Error()) {
				t.Errorf("one more is told %q", said)
			}
			before = runtime.NumGoroutine() - mostForwards
		}
		await(t, "those that have ended are waited for", func() bool { return clock.Waiters() >= pairs })
		clock.Step(lingerTimeout)
		await(t, "nobody waits for the client's end", func() bool { return runtime.NumGoroutine() < before+50 })
	}
}

// A client that is gone is noticed, also behind what its guest does not read.
func TestAForwardThatNobodyReadsEndsWithItsClient(t *testing.T) {
	for _, transport := range []string{"SPDY", "tunnel"} {
		t.Run(transport, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Now())
			b := newBench(t, clock)
			dialed := make(chan net.Conn, 1)
			b.guests.dial = func(uint16) (net.Conn, error) {
				near, far := net.Pipe()
				dialed <- far
				return near, nil
			}
			conn, _ := b.upgradedConn(portForwardOver(transport))
			sent := []spdy.Frame{opensStream(0, streamHeaders("error", "1")), opensStream(1, streamHeaders("data", "1"))}
			for range 100 {
				sent = append(sent, &spdy.DataFrame{StreamId: 3, Data: make([]byte, 1<<10)})
			}
			client := newSPDYClient(t).frames(t, sent...)
			if transport == "tunnel" {
				client = masked(client)
			}
			if _, err := conn.Write(client); err != nil {
				t.Fatal(err)
			}
			far := <-dialed
			if _, err := io.ReadFull(far, make([]byte, 1<<10)); err != nil {
				t.Fatal(err)
			}
			_ = conn.NetConn().Close()
			await(t, "the client's end is noticed", func() bool {
				clock.Step(beat)
				return b.server.taken.count() == 0 && b.server.places.taken() == 0
			})
		})
	}
}

// Streams that belong to nothing are refused, or let go after a while.
func TestStreamsWithoutTheirOther(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	b := newBench(t, clock)
	conn, _, err := b.dialer("SPDY").Dial("portforward.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	alone, err := conn.CreateStream(http.Header{"Streamtype": {"error"}, "Port": {"80"}, "Requestid": {"1"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ kind, port, request string }{{"error", "80", "1"}, {"debug", "80", "2"}, {"data", "0", "3"}, {"data", "65536", "4"}, {"data", "", "5"}} {
		if _, err := conn.CreateStream(http.Header{"Streamtype": {c.kind}, "Port": {c.port}, "Requestid": {c.request}}); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	await(t, "the other one is waited for", clock.HasWaiters)
	clock.Step(remotecommand.DefaultStreamCreationTimeout)
	if said, err := io.ReadAll(alone); err != nil || !strings.Contains(string(said), "timed out waiting for streams") {
		t.Errorf("told %q, %v", said, err)
	}
}

// Old clients name no requests.
func TestForwardsWithoutNames(t *testing.T) {
	b := newBench(t, nil)
	b.guests.dial = listen(t, func(c *net.TCPConn) { _, _ = io.WriteString(c, "here") })
	conn, _, err := b.dialer("SPDY").Dial("portforward.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		if _, err := conn.CreateStream(http.Header{"Streamtype": {"error"}, "Port": {"80"}}); err != nil {
			t.Fatal(err)
		}
		data, err := conn.CreateStream(http.Header{"Streamtype": {"data"}, "Port": {"80"}})
		if err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(data); err != nil || string(said) != "here" {
			t.Errorf("%q, %v", said, err)
		}
	}
}
