package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/utils/clock"
)

// serveForwards connects ports with the streams that a client opens over SPDY, two for each
// connection, until it is gone. Package portforward has those who open streams wait for one
// that takes them, also when it has left, and the whole connection with them.
func serveForwards(w http.ResponseWriter, r *http.Request, f *forwarder) {
	if _, err := httpstream.Handshake(r, w, portforward.SupportedProtocols); err != nil { // which answers by itself
		return
	}
	p := &pairing{ctx: r.Context(), clock: f.clock, halves: map[string]half{}, whole: make(chan pair)}
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, p.take)
	if conn == nil {
		return
	}
	defer conn.Close()
	conn.SetIdleTimeout(streamTimeout)
	late := f.clock.NewTicker(remotecommand.DefaultStreamCreationTimeout)
	defer late.Stop()
	for {
		select {
		case whole := <-p.whole:
			admitted := f.admit() // here, where they are in order: the last are those that are too many
			go f.serve(conn, whole, admitted)
		case <-late.C():
			p.expire(conn)
		case <-conn.CloseChan():
			return
		case <-r.Context().Done():
			return
		}
	}
}

// half is a stream whose other one has not come yet.
type half struct {
	httpstream.Stream
	since time.Time
	// replied is closed once the client was told that it is there.
	replied <-chan struct{}
}

// letGo keeps nothing more of a stream. Before the client was told of it, the connection would
// take it up again.
func (h half) letGo(ctx context.Context, conn httpstream.Connection) {
	select {
	case <-h.replied:
	case <-ctx.Done():
	}
	_ = h.Reset()
	conn.RemoveStreams(h.Stream)
}

func (h half) kind() string { return h.Headers().Get(portforward.StreamType) }

// pair are the two streams of one connection with a port.
type pair struct {
	data, failure half
	port          uint16
}

// pairing finds what belongs together of the streams of a client.
type pairing struct {
	// ctx ends with the client, or with who takes the pairs.
	ctx   context.Context
	clock clock.PassiveClock
	whole chan pair

	mu sync.Mutex
	// halves by the client's name for the connection.
	halves map[string]half
}

// take is a httpstream.NewStreamHandler. An error has the stream refused.
func (p *pairing) take(stream httpstream.Stream, replied <-chan struct{}) error {
	port, err := strconv.ParseUint(stream.Headers().Get(portforward.PortHeader), 10, 16)
	if err != nil || port < 1 {
		return fmt.Errorf("%.40q is no port", stream.Headers().Get(portforward.PortHeader))
	}
	this := half{Stream: stream, since: p.clock.Now(), replied: replied}
	if kind := this.kind(); kind != portforward.StreamTypeData && kind != portforward.StreamTypeError {
		return fmt.Errorf("there is no stream of type %.40q", kind)
	}
	other, found, err := p.other(this)
	if err != nil || !found {
		return err
	}
	whole := pair{data: this, failure: other, port: uint16(port)}
	if this.kind() == portforward.StreamTypeError {
		whole.data, whole.failure = other, this
	}
	select {
	case p.whole <- whole:
	case <-p.ctx.Done():
	}
	return nil
}

// other returns what a stream belongs to, or keeps it until that comes.
func (p *pairing) other(this half) (half, bool, error) {
	name := requestOf(this)
	p.mu.Lock()
	defer p.mu.Unlock()
	other, found := p.halves[name]
	switch {
	case !found:
		p.halves[name] = this
	case other.kind() == this.kind():
		return half{}, false, errors.New("there is a stream of this type and request already")
	default:
		delete(p.halves, name)
	}
	return other, found, nil
}

// requestOf is the client's name for a connection: old clients have none, and open the stream
// of data next after that of its failure.
func requestOf(h half) string {
	name := h.Headers().Get(portforward.PortForwardRequestIDHeader)
	switch {
	case name != "":
		return name
	case h.kind() == portforward.StreamTypeData:
		return strconv.Itoa(int(h.Identifier()) - 2)
	}
	return strconv.Itoa(int(h.Identifier()))
}

// expire lets go of streams that have been alone for too long.
func (p *pairing) expire(conn httpstream.Connection) {
	var alone []half
	p.mu.Lock()
	for name, h := range p.halves {
		if p.clock.Since(h.since) >= remotecommand.DefaultStreamCreationTimeout {
			alone = append(alone, h)
			delete(p.halves, name)
		}
	}
	p.mu.Unlock()
	for _, h := range alone {
		if h.kind() == portforward.StreamTypeError {
			_, _ = h.Write([]byte("timed out waiting for streams"))
		}
		h.letGo(p.ctx, conn)
	}
}
