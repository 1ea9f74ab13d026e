package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/kube"
)

const (
	// A kubelet's bound of a connection that is kept.
	idleTimeout = 90 * time.Second
	// maxHeaderBytes of a request are read before it is known who sends it, and many short
	// headers take 14 times their size: a kubelet takes 1 MiB. The longest are commands.
	maxHeaderBytes = 128 << 10
	// streamTimeout ends an exec, an attach, a port-forward or a log on which nothing
	// was sent for so long, or that nobody read.
	streamTimeout = 4 * time.Hour
	// headerTimeout is for the TLS handshake and for the head of a request.
	headerTimeout = 10 * time.Second
	// listenRetry is how often an address is tried that the host does not have yet.
	listenRetry = 5 * time.Second
	// mostConnections at once of those who may be here; further ones are closed at once.
	mostConnections = 1000
	// mostStrangers are connections of whom that is not known yet; further ones push others
	// out. So many streams may begin at once.
	mostStrangers = mostStreams
	// mostStreams at once: exec, attach, run, port-forward and logs.
	mostStreams = 500
	// mostOfPod of these, so that one Pod's readers leave some to others: a shim takes as
	// many.
	mostOfPod = 200
	// mostReaders of the logs of one Pod: one that reads slowly keeps all files of a log, 50 MiB,
	// on the disk, also when they are rotated away.
	mostReaders = 40
)

// Options of a Server. Certificate, Client, NodeName, Backend and Stats must be set.
type Options struct {
	// Address to listen on, host:port.
	Address string
	// Certificate of this node for a connection.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ClientCA is the PEM of those who sign certificates of clients. Empty: clients have
	// tokens.
	ClientCA []byte
	// Client asks who has a token and who may do what.
	Client   kube.Client
	NodeName string
	Backend  Backend
	Stats    Stats
	// Clock; nil: the real one.
	Clock clock.WithTicker
	Log   *slog.Logger
}

// Server is the API.
type Server struct {
	o      Options
	roots  *x509.CertPool
	authn  *authenticator
	authz  *authorizer
	places *places
	// readers are the places of logs, which are taken beside these.
	readers *places
	// large is what large messages of all clients share.
	large *semaphore.Weighted
	// taken are the connections that streams have taken over.
	taken   *connections
	started time.Time
}

// New returns a server; Run makes it serve. It fails for a ClientCA that holds no
// certificate.
func New(o Options) (*Server, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &Server{o: o, places: newPlaces(mostStreams, mostOfPod), readers: newPlaces(mostStreams, mostReaders), large: semaphore.NewWeighted(mostLarge), taken: newConnections(), started: o.Clock.Now()}
	if len(o.ClientCA) > 0 {
		s.roots = x509.NewCertPool()
		if !s.roots.AppendCertsFromPEM(o.ClientCA) {
			return nil, errors.New("the CA of API clients has no certificate in PEM")
		}
	}
	// Each has places of its own: tokens that strangers invent hold up nobody who is known.
	s.authn = newAuthenticator(s.roots, o.Client, newReviews(), o.Clock)
	s.authz = newAuthorizer(o.NodeName, o.Client, newReviews(), o.Clock)
	return s, nil
}

// Run listens, as soon as the host has the address, and serves until ctx ends. Then
// all streams end.
func (s *Server) Run(ctx context.Context) error {
	for told := false; ; told = true {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.o.Address)
		if err == nil {
			return s.Serve(ctx, l)
		}
		if ctx.Err() != nil {
			return nil
		}
		if !told {
			s.o.Log.Warn("the kubelet's API cannot be served yet: no logs, exec or port-forward", "address", s.o.Address, "err", err)
		}
		timer := s.o.Clock.NewTimer(listenRetry)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// Serve serves on a listener until ctx ends, and closes it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.o.Log.Info("the kubelet's API is served", "address", l.Addr().String())
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler: s,
		// HTTP/2 is on otherwise, whatever TLSConfig says. Streams take their connection
		// over, for which it has no way; and one connection would count as one request.
		Protocols:         &protocols,
		TLSConfig:         s.tls(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       streamTimeout,
		WriteTimeout:      streamTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// What strangers get wrong is not ours to report.
		ErrorLog:    slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: withConn,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	err := server.ServeTLS(limitListener(l, mostConnections, mostStrangers), "", "")
	if ctx.Err() != nil {
		s.taken.close()
		return nil
	}
	return fmt.Errorf("serving the kubelet's API: %w", err)
}

func (s *Server) tls() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: s.o.Certificate,
		// Who has a wrong certificate may still have a token: they are verified with
		// each request.
		ClientAuth: tls.RequestClientCert,
		ClientCAs:  s.roots,
	}
}
