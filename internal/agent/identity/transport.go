package identity

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

const (
	dialTimeout = 10 * time.Second
	keepAlive   = 30 * time.Second
)

// Config returns a configuration for clients of its own connections, and a
// function that closes all of them: requests then dial anew. They are closed by
// themselves when the certificate is renewed, until ctx ends.
func (i *Identity) Config(ctx context.Context) (*rest.Config, func(), error) {
	config, closeAll, err := i.server.config(i.current)
	if err != nil {
		return nil, nil, err
	}
	go i.closeOnRenewal(ctx, closeAll)
	return config, closeAll, nil
}

// closeOnRenewal makes the API server see the new certificate: a connection keeps
// the one it was opened with.
func (i *Identity) closeOnRenewal(ctx context.Context, closeAll func()) {
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
			i.log.Info("client certificate renewed, connections closed")
			used = now
			closeAll()
		}
	}
}

// config dials the endpoint with whatever certificate current returns at that
// moment.
func (e endpoint) config(current func() *tls.Certificate) (*rest.Config, func(), error) {
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
	closeAll := Rotating(config, tlsConfig)
	return config, closeAll, nil
}

// Rotating gives a configuration connections that can all be closed at once, by
// the function it returns. tlsConfig replaces the configuration's own TLS fields.
func Rotating(config *rest.Config, tlsConfig *tls.Config) (closeAll func()) {
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext)
	config.Transport = utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig:     tlsConfig,
		MaxIdleConnsPerHost: 25, // as client-go has it
		DialContext:         dialer.DialContext,
	})
	config.TLSClientConfig = rest.TLSClientConfig{}
	return dialer.CloseAll
}
