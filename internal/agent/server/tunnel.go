package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/websocket"
	constants "k8s.io/apimachinery/pkg/util/portforward"
	clientportforward "k8s.io/client-go/tools/portforward"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// tunneled opens a WebSocket that carries SPDY, and returns what looks like a request
// over SPDY. Nil: it could not be opened, which was answered.
func tunneled(w http.ResponseWriter, r *http.Request, seen frames, cutOff func(error)) (http.ResponseWriter, *http.Request) {
	protocol := tunnelProtocol(r)
	if protocol == "" {
		refuse(w, http.StatusBadRequest, "unable to upgrade: no tunneling spdy protocols provided")
		return nil, nil
	}
	upgrader := websocket.Upgrader{
		// Browsers have no credentials for a node.
		CheckOrigin:  func(*http.Request) bool { return true },
		Subprotocols: []string{constants.WebsocketsSPDYTunnelingPrefix + protocol},
	}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, nil
	}
	request := r.Clone(r.Context())
	request.Method = http.MethodPost
	request.Header = http.Header{}
	request.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	request.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	request.Header.Set(httpstream.HeaderProtocolVersion, protocol)
	tunnel := clientportforward.NewTunnelingConnection("server", conn)
	return &tunnelWriter{conn: framed{tunnel, newFrameReader(tunnel, seen, cutOff)}, header: http.Header{}}, request
}

// tunnelProtocol is one of ours that the client speaks within the tunnel.
func tunnelProtocol(r *http.Request) string {
	for _, name := range websocket.Subprotocols(r) {
		if protocol, found := strings.CutPrefix(name, constants.WebsocketsSPDYTunnelingPrefix); found && slices.Contains(portforward.SupportedProtocols, protocol) {
			return protocol
		}
	}
	return ""
}

// tunnelWriter is a response whose upgrade was answered before.
type tunnelWriter struct {
	conn   net.Conn
	header http.Header
}

// Header goes nowhere.
func (t *tunnelWriter) Header() http.Header { return t.header }

// WriteHeader does as well.
func (t *tunnelWriter) WriteHeader(code int) {
	if code != http.StatusSwitchingProtocols {
		t.conn.Close()
	}
}

func (t *tunnelWriter) Write(p []byte) (int, error) { return io.Discard.Write(p) }

// Hijack returns the tunnel.
func (t *tunnelWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return t.conn, bufio.NewReadWriter(bufio.NewReader(t.conn), bufio.NewWriter(t.conn)), nil
}
