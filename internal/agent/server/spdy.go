package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// spdyProtocols are what clients of exec and attach speak over SPDY. Kubernetes 1.0 spoke
// another.
var spdyProtocols = []string{remotecommand.StreamProtocolV4Name, remotecommand.StreamProtocolV3Name, remotecommand.StreamProtocolV2Name}

// serveSPDY runs a command on streams that the client opens one by one. Package remotecommand
// counts them, whatever they are, and reads sizes of any length.
func (s *Server) serveSPDY(w http.ResponseWriter, r *http.Request, o *remotecommand.Options, failing string, run command) {
	protocol, err := httpstream.Handshake(r, w, spdyProtocols) // which answers by itself
	if err != nil {
		return
	}
	opened := newOpening(o, protocol)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, opened.take)
	if conn == nil {
		return
	}
	defer conn.Close()
	conn.SetIdleTimeout(streamTimeout)
	late := s.o.Clock.NewTimer(remotecommand.DefaultStreamCreationTimeout)
	defer late.Stop()
	streams, err := opened.wait(r.Context(), late.C())
	if err != nil {
		s.o.Log.Debug("no streams", "client", r.RemoteAddr, "err", err)
		return
	}
	var resize <-chan remotecommand.TerminalSize
	if sizes := streams[remotecommand.StreamTypeResize]; sizes != nil {
		resize = resizes(sizes)
	}
	err = run(r.Context(), streamsFrom(r.Context(), s.o.Clock, o, streams[remotecommand.StreamTypeStdin],
		streams[remotecommand.StreamTypeStdout], streams[remotecommand.StreamTypeStderr], resize))
	tell(streams[remotecommand.StreamTypeError], protocol, failing, err)
}

// tell tells a client how its command ended: those before version 4 only that it failed.
func tell(client io.Writer, protocol, failing string, err error) {
	status := statusOf(failing, err)
	text := []byte(status.Message)
	switch protocol {
	case remotecommand.StreamProtocolV4Name, remotecommand.StreamProtocolV5Name, v4Base64:
		var err error
		if text, err = json.Marshal(status); err != nil {
			return
		}
	default:
		if err == nil {
			return
		}
	}
	_, _ = client.Write(text)
}

// opening collects the streams of a client, one of each kind.
type opening struct {
	// wanted are the kinds without which nothing begins.
	wanted []string

	mu      sync.Mutex
	streams map[string]httpstream.Stream
	// replies are closed once the client was told that its stream is there.
	replies []<-chan struct{}
	all     chan struct{}
}

func newOpening(o *remotecommand.Options, protocol string) *opening {
	p := &opening{wanted: []string{remotecommand.StreamTypeError}, streams: map[string]httpstream.Stream{}, all: make(chan struct{})}
	for kind, asked := range map[string]bool{
		remotecommand.StreamTypeStdin: o.Stdin, remotecommand.StreamTypeStdout: o.Stdout, remotecommand.StreamTypeStderr: o.Stderr,
		remotecommand.StreamTypeResize: o.TTY && protocol != remotecommand.StreamProtocolV2Name,
	} {
		if asked {
			p.wanted = append(p.wanted, kind)
		}
	}
	return p
}

// take is a httpstream.NewStreamHandler. An error has the stream refused.
func (p *opening) take(stream httpstream.Stream, replied <-chan struct{}) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	kind := stream.Headers().Get(remotecommand.StreamType)
	switch kind {
	case remotecommand.StreamTypeError, remotecommand.StreamTypeStdin, remotecommand.StreamTypeStdout, remotecommand.StreamTypeStderr, remotecommand.StreamTypeResize:
	default:
		return fmt.Errorf("there is no stream of type %.40q", kind)
	}
	if p.streams[kind] != nil {
		return fmt.Errorf("there is a stream of type %q already", kind)
	}
	p.streams[kind] = stream
	p.replies = append(p.replies, replied)
	if !p.read(kind) {
		// What comes on it must not hold up the others.
		go func() { _, _ = io.Copy(io.Discard, stream) }()
	}
	if slices.Contains(p.wanted, kind) && !slices.ContainsFunc(p.wanted, func(kind string) bool { return p.streams[kind] == nil }) {
		close(p.all)
	}
	return nil
}

// read reports whether what the client sends on such a stream is read.
func (p *opening) read(kind string) bool {
	return slices.Contains(p.wanted, kind) && (kind == remotecommand.StreamTypeStdin || kind == remotecommand.StreamTypeResize)
}

// wait returns all that is wanted, by kind, once the client knows that it is there. What the
// client opens later is nobody's.
func (p *opening) wait(ctx context.Context, late <-chan time.Time) (map[string]httpstream.Stream, error) {
	select {
	case <-p.all:
	case <-late:
		return nil, errors.New("the client did not open the streams that it asked for")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, replied := range p.replies {
		select {
		case <-replied:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	wanted := map[string]httpstream.Stream{}
	for _, kind := range p.wanted {
		wanted[kind] = p.streams[kind]
	}
	return wanted, nil
}
