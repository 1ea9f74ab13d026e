package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	"k8s.io/utils/clock"
)

// mostForwards are the connections of one port-forward at once.
const mostForwards = 250

// portForward connects a client with ports of a Pod.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request, asked route) {
	// Through a tunnel ports are named later.
	o := &portforward.V4Options{}
	tunnel := wsstream.IsWebSocketRequestWithTunnelingProtocol(r)
	if !tunnel {
		var err error
		if o, err = portforward.NewV4Options(r); err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	if len(o.Ports) > mostForwards {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("%d ports are more than the %d of one port-forward", len(o.Ports), mostForwards))
		return
	}
	c, found := s.find(r.Context(), w, asked, "pod does not exist", "pod not found")
	if !found {
		return
	}
	if !c.Running {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("pod not found (%q): it is not running", asked.pod+"_"+asked.namespace))
		return
	}
	if !upgradable(w, r) {
		return
	}
	inSPDY := newSPDYFrames(2 * mostForwards)
	seen := frames(inSPDY)
	switch {
	case tunnel:
		seen = nil // but within it
	case wsstream.IsWebSocketRequest(r):
		seen = &webSocketFrames{large: s.large}
	}
	w, r, end := s.takeOver(w, r, seen)
	defer end()
	f := &forwarder{ctx: r.Context(), clock: s.o.Clock, backend: s.o.Backend, container: c, frames: inSPDY}
	switch {
	case tunnel:
		if w, r = tunneled(w, r, inSPDY, s.cutOff(r)); w != nil {
			serveForwards(w, r, f)
		}
	case wsstream.IsWebSocketRequest(r):
		portforward.ServePortForward(w, r, f, c.Pod.Name, string(c.Pod.UID), o, streamTimeout, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
	default:
		serveForwards(w, r, f)
	}
}

// forwarder connects the streams of one request with ports.
type forwarder struct {
	// ctx ends with the client, which the library does not tell.
	ctx       context.Context
	clock     clock.WithTicker
	backend   Backend
	container Container
	open      atomic.Int64
	// frames are those that open streams, if it is SPDY that they are in.
	frames *spdyFrames
}

// admit counts a pair, which serve ends, and reports whether it may be connected.
func (f *forwarder) admit() bool {
	f.frames.served.Add(2) // that of the data, and that of the error
	return f.open.Add(1) <= mostForwards
}

// serve connects a pair with its port, if it was admitted. It counts until both sides have ended it;
// a client that does not when the guest has, has a while for it.
func (f *forwarder) serve(conn httpstream.Connection, p pair, admitted bool) {
	defer f.open.Add(-1)
	defer p.failure.letGo(f.ctx, conn)
	defer p.data.letGo(f.ctx, conn)
	err := ErrTooMany
	var ended <-chan struct{}
	if admitted {
		ended, err = f.connect(p.port, p.data)
	}
	if err != nil {
		_, _ = fmt.Fprintf(p.failure, "error forwarding port %d to pod %s, uid %s: %v", p.port, f.container.Pod.Name, f.container.Pod.UID, err)
		return
	}
	_ = p.data.Close()
	_ = p.failure.Close()
	linger := f.clock.NewTimer(lingerTimeout)
	defer linger.Stop()
	select {
	case <-ended:
	case <-linger.C():
	case <-f.ctx.Done():
	}
}

// PortForward is a portforward.PortForwarder, for WebSockets: their ports are counted before.
func (f *forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	_, err := f.connect(uint16(port), stream)
	return err
}

// connect returns when the guest has closed the connection, or the client is gone; the channel
// is closed when the client has ended its side.
func (f *forwarder) connect(port uint16, stream io.ReadWriter) (<-chan struct{}, error) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	conn, err := f.backend.Dial(ctx, f.container, port)
	if err != nil {
		return nil, dialError(port, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var waits atomic.Bool
	go lookAfter(ctx, f.clock, &waits, stream)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := io.Copy(patientOutput{conn, &waits}, stream); err != nil {
			conn.Close()
			// What still comes must not hold up what is behind it.
			_, _ = io.Copy(io.Discard, stream)
			return
		}
		closeWrite(conn)
	}()
	_, err = io.Copy(stream, conn)
	switch {
	case ctx.Err() != nil:
		return ended, nil
	case errors.Is(err, ErrPortRefused):
		// A guest may say so only when it is read from.
		return ended, dialError(port, err)
	}
	return ended, err
}

// dialError reads as that of a kubelet, where nobody listens.
func dialError(port uint16, err error) error {
	if errors.Is(err, ErrPortRefused) {
		err = ErrPortRefused
	}
	return fmt.Errorf("dial tcp localhost:%d: connect: %w", port, err)
}

// closeWrite says that nothing more comes, where the connection has a way to.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
