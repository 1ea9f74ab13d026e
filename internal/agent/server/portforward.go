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
	"k8s.io/streaming/pkg/httpstream/wsstream"
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
	w, r, cancel := s.takeOver(w, r, seen)
	defer cancel()
	if tunnel {
		if w, r = tunneled(w, r, inSPDY, s.cutOff(r)); w == nil {
			return
		}
	}
	portforward.ServePortForward(w, r, &forwarder{ctx: r.Context(), backend: s.o.Backend, container: c, frames: inSPDY}, c.Pod.Name, string(c.Pod.UID), o,
		streamTimeout, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
}

// forwarder connects the streams of one request with ports.
type forwarder struct {
	// ctx ends with the client, which the library does not tell.
	ctx       context.Context
	backend   Backend
	container Container
	open      atomic.Int64
	// frames are those that open streams, if it is SPDY that they are in.
	frames *spdyFrames
}

// PortForward is a portforward.PortForwarder. It returns when the guest has closed the
// connection, or the client is gone.
func (f *forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	f.frames.served.Add(2) // that of the data, and that of the error
	defer f.open.Add(-1)
	if f.open.Add(1) > mostForwards {
		return ErrTooMany
	}
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	conn, err := f.backend.Dial(ctx, f.container, uint16(port))
	if err != nil {
		return dialError(port, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	go func() {
		if _, err := io.Copy(conn, stream); err != nil {
			conn.Close()
			return
		}
		closeWrite(conn)
	}()
	_, err = io.Copy(stream, conn)
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, ErrPortRefused):
		// A guest may say so only when it is read from.
		return dialError(port, err)
	}
	return err
}

// dialError reads as that of a kubelet, where nobody listens.
func dialError(port int32, err error) error {
	if errors.Is(err, ErrPortRefused) {
		err = ErrPortRefused
	}
	return fmt.Errorf("dial tcp 127.0.0.1:%d: connect: %w", port, err)
}

// closeWrite says that nothing more comes, where the connection has a way to.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
