package identity

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

const (
	dialTimeout = 10 * time.Second
	keepAlive   = 30 * time.Second
	// lastRequests is how long connections with a former certificate are kept for the
	// requests on them. Only watches take longer, which begin again by themselves.
	lastRequests = 30 * time.Second
)

// Config returns a configuration for clients of its own connections, and a
// function that closes all of them: requests then dial anew. When the certificate is
// renewed, requests go over new connections by themselves, until ctx ends.
func (i *Identity) Config(ctx context.Context) (*rest.Config, func(), error) {
	config, connections, err := i.server.config(i.current)
	if err != nil {
		return nil, nil, err
	}
	go i.moveOnRenewal(ctx, connections)
	return config, connections.closeAll, nil
}

// moveOnRenewal makes the API server see the new certificate: a connection keeps
// the one it was opened with.
func (i *Identity) moveOnRenewal(ctx context.Context, c *connections) {
	look := time.NewTicker(renewInterval)
	defer look.Stop()
	used := i.current()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if now := i.current(); now != nil && now != used {
			i.log.Info("client certificate renewed, requests move to new connections")
			used = now
			c.move(lastRequests)
		}
	}
}

// config dials the endpoint with whatever certificate current returns at that
// moment.
func (e endpoint) config(current func() *tls.Certificate) (*rest.Config, *connections, error) {
	config := &rest.Config{Host: e.Server, TLSClientConfig: rest.TLSClientConfig{CAData: e.CA}}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the API server's certificate authority: %w", err)
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if c := current(); c != nil {
			return c, nil
		}
		// An empty one says that we have none; the server answers 401.
		return &tls.Certificate{}, nil
	}
	return config, rotating(config, tlsConfig), nil
}

// Rotating gives a configuration connections that can all be closed at once, by
// the function it returns. They are dialled by the configuration's Dial, where it has one.
// tlsConfig replaces the configuration's own TLS fields.
func Rotating(config *rest.Config, tlsConfig *tls.Config) (closeAll func()) {
	return rotating(config, tlsConfig).closeAll
}

func rotating(config *rest.Config, tlsConfig *tls.Config) *connections {
	if tlsConfig == nil { // as of a server without TLS
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c := &connections{dial: config.Dial, tlsConfig: tlsConfig, former: map[*generation]bool{}}
	if c.dial == nil {
		c.dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext
	}
	c.now = c.next()
	config.Transport, config.TLSClientConfig = c, rest.TLSClientConfig{}
	return c
}

// connections are a transport in generations: those that are open, and those of
// before, which end with the requests on them.
type connections struct {
	dial      connrotation.DialFunc
	tlsConfig *tls.Config

	mu     sync.Mutex
	now    *generation
	former map[*generation]bool
}

// generation is a pool of connections.
type generation struct {
	dialer    *connrotation.Dialer
	transport *http.Transport
}

func (c *connections) next() *generation {
	dialer := connrotation.NewDialer(c.dial)
	return &generation{dialer: dialer, transport: utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig:     c.tlsConfig.Clone(),
		MaxIdleConnsPerHost: 25, // as client-go has it
		DialContext:         dialer.DialContext,
	})}
}

// RoundTrip sends a request over the present connections.
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	now := c.now
	c.mu.Unlock()
	return now.transport.RoundTrip(r)
}

// CloseIdleConnections is for those who close a client.
func (c *connections) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.transport.CloseIdleConnections()
}

// move sends all further requests over new connections. Those of before are closed
// once nothing is on them, after the grace in any case.
func (c *connections) move(grace time.Duration) {
	c.mu.Lock()
	old := c.now
	c.now = c.next()
	c.former[old] = true
	c.mu.Unlock()
	old.transport.CloseIdleConnections()
	time.AfterFunc(grace, func() { c.drop(old) })
}

func (c *connections) drop(old *generation) {
	c.mu.Lock()
	delete(c.former, old)
	c.mu.Unlock()
	old.dialer.CloseAll()
}

// closeAll closes every connection with whatever is on it.
func (c *connections) closeAll() {
	c.mu.Lock()
	now := c.now
	former := c.former
	c.former = map[*generation]bool{}
	c.mu.Unlock()
	now.dialer.CloseAll()
	for old := range former {
		old.dialer.CloseAll()
	}
}
