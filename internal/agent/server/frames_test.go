package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/moby/spdystream/spdy"
	"golang.org/x/sync/semaphore"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// spdyClient writes the frames of one connection, which share their compression.
type spdyClient struct {
	framer *spdy.Framer
	sent   bytes.Buffer
}

func newSPDYClient(t *testing.T) *spdyClient {
	t.Helper()
	c := &spdyClient{}
	var err error
	if c.framer, err = spdy.NewFramer(&c.sent, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// frames are the bytes of some.
func (c *spdyClient) frames(t *testing.T, frames ...spdy.Frame) []byte {
	t.Helper()
	c.sent.Reset()
	for _, frame := range frames {
		if err := c.framer.WriteFrame(frame); err != nil {
			t.Fatal(err)
		}
	}
	return bytes.Clone(c.sent.Bytes())
}

// opensStream is the frame that opens the i-th stream.
func opensStream(i int, headers http.Header) spdy.Frame {
	return &spdy.SynStreamFrame{StreamId: spdy.StreamId(2*i + 1), Headers: headers}
}

// streamHeaders are as kubectl port-forward sends them.
func streamHeaders(kind, request string) http.Header {
	return http.Header{"streamtype": {kind}, "port": {"80"}, "requestid": {request}}
}

func data(length int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0, 0, 0, 1}, uint32(length)), make([]byte, length)...)
}

func message(length int, masked bool) []byte {
	head := []byte{0x82, 0}
	switch {
	case length < 126:
		head[1] = byte(length)
	case length < 1<<16:
		head[1] = 126
		head = binary.BigEndian.AppendUint16(head, uint16(length))
	default:
		head[1] = 127
		head = binary.BigEndian.AppendUint64(head, uint64(length))
	}
	if masked {
		head[1] |= 0x80
		head = append(head, 1, 2, 3, 4)
	}
	return append(head, make([]byte, length)...)
}

// Frames are judged before any of them is read, in whatever pieces they come.
func TestFrames(t *testing.T) {
	webSocketOf := func() frames { return &webSocketFrames{large: semaphore.NewWeighted(mostLarge)} }
	spdyOf := func(most int64) frames { return newSPDYFrames(most) }
	streams := func(n int) (all [][]byte) {
		client := newSPDYClient(t)
		for i := range n {
			all = append(all, client.frames(t, opensStream(i, streamHeaders("data", fmt.Sprint(i)))))
		}
		return all
	}
	others := newSPDYClient(t).frames(t, &spdy.PingFrame{Id: 1}, &spdy.RstStreamFrame{StreamId: 1, Status: spdy.Cancel},
		&spdy.SettingsFrame{FlagIdValues: []spdy.SettingsFlagIdValue{{Id: spdy.SettingsInitialWindowSize, Value: 1 << 16}}}, &spdy.GoAwayFrame{LastGoodStreamId: 1})
	alone := func(frame spdy.Frame) [][]byte { return [][]byte{newSPDYClient(t).frames(t, frame)} }
	// Within one that is longer than the library reads it, another begins.
	within := append([]byte{0x80, 3, 0, 3, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 5}, make([]byte, 8)...)
	for name, c := range map[string]struct {
		frames frames
		sent   [][]byte
		want   error
	}{
		"clients' data":           {spdyOf(1), [][]byte{data(0), data(32 << 10), data(maxDataFrame), others}, nil},
		"data too long":           {spdyOf(1), [][]byte{data(1), data(maxDataFrame + 1)}, errFrame},
		"a head too long":         {spdyOf(1), [][]byte{{0x80, 3, 0, 1, 0, 0, maxControlFrame >> 8, 1}}, errFrame},
		"a head that is a bomb":   {spdyOf(1), alone(opensStream(0, http.Header{"port": {strings.Repeat("0", maxField+1)}})), errControl},
		"NULs in a head":          {spdyOf(1), alone(opensStream(0, http.Header{"port": {strings.Repeat("\x00", 10)}})), errControl},
		"no head":                 {spdyOf(1), [][]byte{{0x80, 3, 0, 1, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}}, errControl},
		"a reply":                 {spdyOf(1), alone(&spdy.SynReplyFrame{StreamId: 1, Headers: streamHeaders("data", "1")}), errControl},
		"headers":                 {spdyOf(1), alone(&spdy.HeadersFrame{StreamId: 1, Headers: streamHeaders("data", "1")}), errControl},
		"a frame within another":  {spdyOf(1), [][]byte{within}, errControl},
		"two streams":             {spdyOf(2), slices.Concat([][]byte{data(9)}, streams(2), [][]byte{data(9)}), nil},
		"streams without an end":  {spdyOf(2), streams(3), errUnpaired},
		"clients' messages":       {webSocketOf(), [][]byte{message(0, true), message(125, true), message(126, true), message(32<<10+1, true), message(smallMessage+1, true), message(7, false)}, nil},
		"a message too long":      {webSocketOf(), [][]byte{message(3, true), message(maxMessage+1, true)}, errFrame},
		"a short one, then a lie": {webSocketOf(), [][]byte{message(200, true), {0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4}}, errFrame},
	} {
		t.Run(name, func(t *testing.T) {
			var cut []error
			r := newFrameReader(iotest.OneByteReader(bytes.NewReader(bytes.Join(c.sent, nil))), c.frames, func(why error) { cut = append(cut, why) })
			got, err := io.ReadAll(r)
			if c.want == nil {
				if want := bytes.Join(c.sent, nil); err != nil || len(cut) > 0 || !bytes.Equal(got, want) {
					t.Errorf("%d of %d bytes, err %v, cut off for %v", len(got), len(want), err, cut)
				}
				return
			}
			// Nothing of the last frame is read, now or later.
			again, stays := io.ReadAll(r)
			if want := bytes.Join(c.sent[:len(c.sent)-1], nil); !bytes.Equal(got, want) || len(again) > 0 {
				t.Errorf("%d bytes and %d later, not the %d before the fault", len(got), len(again), len(want))
			}
			if !errors.Is(err, c.want) || !errors.Is(stays, c.want) || len(cut) != 1 || !errors.Is(cut[0], c.want) {
				t.Errorf("got %v, later %v, cut off for %v, want %v", err, stays, cut, c.want)
			}
		})
	}
	served, client := newSPDYFrames(2), newSPDYClient(t)
	for i := range 10 {
		sent := client.frames(t, opensStream(2*i, streamHeaders("error", "")), opensStream(2*i+1, streamHeaders("data", "")))
		if _, err := io.ReadAll(newFrameReader(bytes.NewReader(sent), served, nil)); err != nil {
			t.Fatal(err)
		}
		served.served.Add(2)
	}
}

// A head that a few kilobytes of the wire become megabytes of costs the connection that it comes
// on, and nothing else: neither do those that the library never takes from its queues.
func TestAHeadThatInflates(t *testing.T) {
	nuls := http.Header{"a": {strings.Repeat("\x00", 1<<17)}, "b": {strings.Repeat("\x00", 1<<17)}, "c": {strings.Repeat("\x00", 1<<17)}}
	for _, transport := range []string{"SPDY", "tunnel"} {
		for name, bomb := range map[string]spdy.Frame{
			"a stream": opensStream(0, nuls), "a reply": &spdy.SynReplyFrame{StreamId: 1, Headers: nuls}, "headers": &spdy.HeadersFrame{StreamId: 1, Headers: nuls},
		} {
			t.Run(transport+"/"+name, func(t *testing.T) {
				b := newBench(t, clocktesting.NewFakeClock(time.Now()))
				sent := newSPDYClient(t).frames(t, bomb)
				if len(sent) > maxControlFrame {
					t.Fatalf("%d bytes are too many for a frame", len(sent))
				}
				conn, from := b.upgradedConn(portForwardOver(transport))
				if transport == "tunnel" {
					sent = masked(sent)
				}
				before := allocated()
				if _, err := conn.Write(sent); err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, from); err != nil {
					t.Errorf("it goes on: %v", err)
				}
				// Also what is garbage by now: many clients may do it at once.
				if took := allocated() - before; took > 1<<20 {
					t.Errorf("%d bytes of memory were taken by %d", took, len(sent))
				}
			})
		}
	}
}

// allocated is how much memory was ever taken, in bytes.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// masked is a message of WebSocket, which a mask of zeros leaves as it is.
func masked(sent []byte) []byte {
	head := message(len(sent), true)[:len(message(len(sent), true))-len(sent)]
	copy(head[len(head)-4:], make([]byte, 4))
	return append(head, sent...)
}

// portForwardOver is the head of a request but for what all have.
func portForwardOver(transport string) string {
	if transport == "SPDY" {
		return "POST /portForward/ci/build HTTP/1.1\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n"
	}
	return "GET /portForward/ci/build HTTP/1.1\r\nUpgrade: websocket\r\nOrigin: http://mac\r\nSec-Websocket-Version: 13\r\n" +
		"Sec-Websocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-Websocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n"
}

// upgradedConn is a connection after its upgrade.
func (b *bench) upgradedConn(request string) (*tls.Conn, *bufio.Reader) {
	b.t.Helper()
	conn, err := tls.Dial("tcp", b.addr, &tls.Config{InsecureSkipVerify: true}) // who it is does not matter
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, request+"Host: mac\r\nAuthorization: Bearer good\r\nConnection: Upgrade\r\n\r\n"); err != nil {
		b.t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	from := bufio.NewReader(conn)
	if answer, err := http.ReadResponse(from, nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		b.t.Fatalf("%+v, %v", answer, err)
	}
	return conn, from
}

// A client that sends what no client does is cut off. No clock ends any of them otherwise.
func TestAFrameTooLongEndsTheConnection(t *testing.T) {
	const (
		exec      = "GET " + execPath + "?command=id&input=1&output=1 HTTP/1.1\r\n"
		webSocket = "Upgrade: websocket\r\nOrigin: http://mac\r\nSec-Websocket-Version: 13\r\nSec-Websocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-Websocket-Protocol: "
	)
	inTunnel := append([]byte{0x82, 0x80 | spdyHead, 0, 0, 0, 0}, data(1 << 20)[:spdyHead]...)
	for name, c := range map[string]struct {
		request string
		sent    []byte
	}{
		"SPDY":      {exec + "Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n", data(1 << 20)[:64]},
		"WebSocket": {exec + webSocket + "v4.channel.k8s.io\r\n", message(2<<20, true)[:64]},
		"tunnel":    {"GET /portForward/ci/build HTTP/1.1\r\n" + webSocket + "SPDY/3.1+portforward.k8s.io\r\n", inTunnel},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, clocktesting.NewFakeClock(time.Now()))
			b.server.large = semaphore.NewWeighted(1 << 20)
			b.guests.exec = func(ctx context.Context, _ vm.GuestCommand, _ vm.Streams) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			conn, from := b.upgradedConn(c.request)
			if _, err := conn.Write(c.sent); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, from); err != nil {
				t.Errorf("it goes on: %v", err)
			}
		})
	}
}

// Large messages have what they share back once they are taken, or their connection is over.
func TestLargeMessages(t *testing.T) {
	judge := func(f *webSocketFrames, length int) error {
		_, err := f.next(bufio.NewReader(bytes.NewReader(message(length, true))))
		return err
	}
	large := semaphore.NewWeighted(2 << 20)
	one, another := &webSocketFrames{large: large}, &webSocketFrames{large: large}
	if err := judge(one, 2<<20); err != nil {
		t.Fatal(err)
	}
	if err := judge(another, 1<<20); !errors.Is(err, errLarge) {
		t.Errorf("more than all: %v", err)
	}
	another = &webSocketFrames{large: large}
	if err := judge(another, smallMessage); err != nil {
		t.Errorf("a small one: %v", err)
	}
	if _, err := one.next(bufio.NewReader(bytes.NewReader(nil))); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	for range 3 {
		if err := judge(another, 2<<20); err != nil {
			t.Errorf("while the other waits for its next: %v", err)
		}
	}
	another.end()
	for range 3 {
		if err := judge(one, 2<<20); err != nil {
			t.Errorf("after the end of the other: %v", err)
		}
	}
}
