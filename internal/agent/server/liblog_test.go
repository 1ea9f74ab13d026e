package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	streamingruntime "k8s.io/streaming/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// spoken is what a log says.
type spoken struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.Write(p)
}

func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

// libraries is what libraries say to nobody's log in particular, for the whole process.
var libraries spoken

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(LibraryLog(slog.NewTextHandler(&libraries, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	os.Exit(m.Run())
}

// What clients get wrong with streams fills nobody's log, whatever they call them.
func TestLibrariesSayLittleOfStreams(t *testing.T) {
	b := newBench(t, nil)
	b.guests.dial = func(uint16) (net.Conn, error) { return nil, ErrPortRefused }
	conn, _, err := b.dialer("SPDY").Dial("portforward.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, kind := range []string{"error", "error", "debug", "data"} {
		_, _ = conn.CreateStream(http.Header{"Streamtype": {kind}, "Port": {"80"}, "Requestid": {"one"}})
	}
	webSocket, _ := b.upgradedConn("GET /portForward/ci/build?port=80 HTTP/1.1\r\nUpgrade: websocket\r\nOrigin: http://mac\r\nSec-Websocket-Version: 13\r\n" +
		"Sec-Websocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-Websocket-Protocol: v4.channel.k8s.io\r\n")
	defer webSocket.Close()
	await(t, "both libraries have spoken", func() bool {
		return strings.Contains(libraries.String(), "Stream rejected") && strings.Contains(libraries.String(), "error forwarding port 80 to pod build")
	})
	// The clients of other tests speak in the same log.
	for line := range strings.Lines(libraries.String()) {
		ofServer := strings.Contains(line, "Stream rejected") || strings.Contains(line, `msg="Unhandled Error" err="error forwarding port 80 to pod build`)
		if ofServer && !strings.Contains(line, "level=DEBUG") {
			t.Errorf("said %s", line)
		}
	}
}

// Others are heard, but not at length; and so is what would have been a crash.
func TestLibrariesAreHeard(t *testing.T) {
	said := &spoken{}
	log := logr.FromSlogHandler(LibraryLog(slog.NewTextHandler(said, nil)).WithGroup("g").WithAttrs([]slog.Attr{slog.Bool("b", true)}))
	log.Error(errors.New(strings.Repeat("é", 1<<20)), strings.Repeat("a", 1<<20))
	func() {
		defer streamingruntime.HandleCrashWithLogger(log)
		panic("here")
	}()
	streamingruntime.HandleErrorWithContext(klog.NewContext(t.Context(), log), errors.New("hidden"), "hidden")
	if text := said.String(); strings.Count(text, "level=ERROR") != 2 || len(text) > 4*mostSaid || !strings.Contains(text, "g.b=true") || strings.Contains(text, "hidden") {
		t.Errorf("said %d bytes, %.4000s", len(text), text)
	}
}

// An upload that its client cuts off, as by Ctrl-C in kubectl cp, is nothing that operators
// are told of.
func TestAnUploadThatIsCutOffIsNoError(t *testing.T) {
	const (
		head      = "GET " + execPath + "?command=tar&input=1&output=1 HTTP/1.1\r\n"
		webSocket = head + "Upgrade: websocket\r\nOrigin: http://mac\r\nSec-Websocket-Version: 13\r\nSec-Websocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-Websocket-Protocol: "
	)
	for name, cut := range map[string]int{"in the middle of a message": 500, "behind one": 0} {
		t.Run(name, func(t *testing.T) {
			log := &spoken{}
			b := newLoggedBench(t, clocktesting.NewFakeClock(time.Now()), slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			began, gone := make(chan struct{}), make(chan struct{})
			b.guests.exec = func(ctx context.Context, _ vm.GuestCommand, s vm.Streams) (int, error) {
				defer close(gone)
				_, _ = io.ReadFull(s.Stdin, make([]byte, 9000)) // the channel's number and the zeros of a message
				close(began)
				<-ctx.Done()
				return 0, context.Cause(ctx)
			}
			conn, _ := b.upgradedConn(webSocket + "v5.channel.k8s.io\r\n")
			sent := append(message(9001, true), message(9001, true)[:cut]...)
			copy(sent[8:], []byte{1}) // the channel of the input, masked
			if _, err := conn.Write(sent); err != nil {
				t.Fatal(err)
			}
			<-began
			// As of a machine that goes: what is left of the connection is reset.
			_ = conn.NetConn().(*net.TCPConn).SetLinger(0)
			_ = conn.NetConn().Close()
			select {
			case <-gone:
			case <-time.After(patience):
				t.Fatal("the command goes on")
			}
			await(t, "the end of the connection is noted", func() bool { return strings.Contains(log.String(), "socket receive") })
			if strings.Contains(log.String(), "level=ERROR") {
				t.Errorf("said %s", log)
			}
		})
	}
}
