package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

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
