package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// manyStreams are far more than are served. The race detector makes each handshake of TLS
// ten times as dear: make test asks for ten thousand without it.
var manyStreams = flag.Int("streams", 2000, "how many streams and ports are asked for")

// heap is what is in use of it.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// ask sends the head of a request for a stream on a connection of its own, which it leaves
// open, and returns the answer's code.
func (b *bench) ask(config *tls.Config) (int, net.Conn, error) {
	conn, err := tls.Dial("tcp", b.addr, config)
	if err != nil {
		return 0, nil, err
	}
	_, err = fmt.Fprintf(conn, "POST %s?command=id&output=1 HTTP/1.1\r\nHost: mac\r\nAuthorization: Bearer good\r\n"+
		"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n", execPath)
	if err != nil {
		return 0, conn, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, conn, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, conn, errors.Join(err, answer.Body.Close())
}

// However many streams are asked for, so many are served, the others are refused at once,
// and cost nothing that lasts; all else is answered meanwhile. Those who are refused may keep
// their connections: they do not take the places of others.
func TestManyStreams(t *testing.T) {
	b := newBench(t, nil)
	b.put(logged(t))
	// Not followers of a log, which would hold all watches of files that this system has.
	taken := make([]httpstream.Connection, mostOfPod)
	for i := range taken {
		conn, _, err := b.dialer("SPDY").Dial("portforward.k8s.io")
		if err != nil {
			t.Fatal(err)
		}
		taken[i] = conn
	}
	roots := x509.NewCertPool()
	roots.AddCert(b.ca.cert)
	config := &tls.Config{RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(*manyStreams)}
	before, goroutines := heap(), runtime.NumGoroutine()
	var refused atomic.Int64
	var asking sync.WaitGroup
	for range 10 {
		asking.Go(func() {
			var kept []net.Conn
			for range (*manyStreams - mostOfPod) / 10 {
				code, conn, err := b.ask(config)
				if conn != nil {
					kept = append(kept, conn)
				}
				if err != nil || code != http.StatusTooManyRequests {
					t.Errorf("%d, %v", code, err)
					break
				}
				refused.Add(1)
				if len(kept) > mostConnections/5 {
					_ = kept[0].Close()
					kept = kept[1:]
				}
			}
			for _, conn := range kept {
				_ = conn.Close()
			}
		})
	}
	asking.Wait()
	if n := refused.Load(); n != int64(*manyStreams-mostOfPod) {
		t.Errorf("%d streams were refused", n)
	}
	b.expect(b.client(), "/healthz", "good", http.StatusOK, "ok")
	await(t, "the goroutines of streams that were refused are gone", func() bool { return runtime.NumGoroutine() <= goroutines+50 })
	if now := heap(); now > before+16<<20 {
		t.Errorf("%d bytes of memory are left of the streams that were refused", now-before)
	}
	for _, conn := range taken {
		_ = conn.Close()
	}
	await(t, "the places of streams that ended are free", func() bool {
		code, _ := b.get("/containerLogs/ci/build/main?limitBytes=3")
		return code == http.StatusOK
	})
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	late := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-late:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// The ports of one connection are bounded, too.
func TestManyPortsOfOneConnection(t *testing.T) {
	b := newBench(t, nil)
	var dialed atomic.Int64
	var held sync.Map
	b.guests.dial = func(uint16) (net.Conn, error) {
		near, far := net.Pipe()
		held.Store(dialed.Add(1), far)
		return near, nil
	}
	conn, _, err := b.dialer("SPDY").Dial("portforward.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var refused atomic.Int64
	var telling sync.WaitGroup
	for i := range *manyStreams {
		var failure io.Reader
		for _, kind := range []string{"error", "data"} {
			stream, err := conn.CreateStream(http.Header{"Streamtype": {kind}, "Port": {"80"}, "Requestid": {fmt.Sprint(i)}})
			// One that is refused may be gone before it is here.
			if err != nil && (kind == "error" || i < mostForwards) {
				t.Fatal(i, kind, err)
			}
			if kind == "error" {
				failure = stream
			}
		}
		if i < mostForwards {
			continue
		}
		telling.Go(func() {
			text, _ := io.ReadAll(failure)
			if strings.Contains(string(text), ErrTooMany.Error()) {
				refused.Add(1)
			}
		})
	}
	telling.Wait()
	if n, served := refused.Load(), dialed.Load(); n != int64(*manyStreams-mostForwards) || served != mostForwards {
		t.Errorf("%d ports were served, %d refused", served, n)
	}
}

// endless is an input without end, which counts what is taken of it.
type endless struct{ taken atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.taken.Add(int64(len(p)))
	return len(p), nil
}

// relayed has what the test sends go through a relay, which cut ends as the death of a client
// does: what it has not sent yet is still on its way.
func (b *bench) relayed() (cut func()) {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	server := b.addr
	b.addr = l.Addr().String()
	conns := make(chan net.Conn, 2)
	go func() {
		near, err := l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", server)
		if err != nil {
			_ = near.Close()
			return
		}
		// What systems keep of it is not the server's.
		for _, conn := range []net.Conn{near, far} {
			_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
			_ = conn.(*net.TCPConn).SetWriteBuffer(64 << 10)
			conns <- conn
		}
		go func() { _, _ = io.Copy(near, far) }()
		_, _ = io.Copy(far, near)
	}()
	cut = func() {
		_ = l.Close()
		for range 2 {
			_ = (<-conns).Close()
		}
	}
	return cut
}

// An input that nobody in the guest reads is not kept, and its command ends with its
// client all the same.
func TestInputThatNobodyReads(t *testing.T) {
	const most = 32 << 20
	for _, transport := range transports[:2] {
		t.Run(transport, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Now())
			b := newBench(t, clock)
			ended := make(chan struct{})
			b.guests.exec = func(ctx context.Context, _ vm.GuestCommand, _ vm.Streams) (int, error) {
				<-ctx.Done()
				close(ended)
				return 0, ctx.Err()
			}
			input := &endless{}
			o := remotecommand.StreamOptions{Stdin: input, Stdout: io.Discard}
			cut := b.relayed()
			go func() { _ = b.executor(transport, execPath, o, "any").StreamWithContext(t.Context(), o) }()
			// It is over once nothing was taken for a while.
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for last, same := int64(-1), 0; same < 20; same++ {
				<-tick.C
				taken := input.taken.Load()
				if taken != last || taken == 0 {
					last, same = taken, 0
				}
				if taken > most {
					t.Fatalf("%d bytes were taken", taken)
				}
			}
			cut()
			late := time.After(patience)
			for {
				select {
				case <-ended:
					return
				case <-late:
					t.Fatal("the command was not told that its client is gone")
				case <-tick.C:
					clock.Step(beat)
				}
			}
		})
	}
}
