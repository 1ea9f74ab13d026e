// Package identity gives the agent a node's identity: a client certificate for
// system:node:<name>, asked for with a bootstrap token, renewed with itself, and
// used by connections that are closed when it changes. Who approves the requests,
// and what the identity may do, is the cluster's business.
package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	certificates "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/macfleet/macfleet/internal/agent/certificate"
	"github.com/macfleet/macfleet/internal/agent/kube"
)

const (
	// certificateLife is asked for; the signer may give less.
	certificateLife = 24 * time.Hour
	// complainInterval is how often a missing certificate is spoken of.
	complainInterval = 30 * time.Second
	// watchInterval is how often the first certificate, and later a new one, is
	// looked for; package certificate tells nobody.
	watchInterval = 200 * time.Millisecond
	renewInterval = 10 * time.Second
	pairName      = "node-client"
)

// Options of Start. All must be set but Log.
type Options struct {
	NodeName string
	// BootstrapKubeconfig names the API server, its authority, and a token. It may
	// be missing once a certificate was issued.
	BootstrapKubeconfig string
	// Kinds are those of the client that asks for the certificate.
	Kinds *kube.Kinds
	// Dir keeps the certificate and the server's address; only the owner may read it.
	Dir string
	Log *slog.Logger
}

// Identity is how the agent speaks to the API server.
type Identity struct {
	server  endpoint
	current func() *tls.Certificate
	log     *slog.Logger
}

// Start returns once there is a certificate, however long that takes; it says in
// the log what it waits for. The certificate is renewed until ctx ends.
func Start(ctx context.Context, o Options) (*Identity, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the identity: %w", err)
	}
	server, err := awaitEndpoint(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := DropForeign(o.Dir, pairName, o.NodeName); err != nil {
		return nil, err
	}
	rotator, err := openRotator(o, server)
	if err != nil {
		return nil, err
	}
	go rotator.Run(ctx)
	if err := awaitCertificate(ctx, o, rotator); err != nil {
		return nil, err
	}
	return &Identity{server: server, current: rotator.Current, log: o.Log}, nil
}

func openRotator(o Options, server endpoint) (*certificate.Rotator, error) {
	subject := &x509.CertificateRequest{Subject: Subject(o.NodeName)}
	return certificate.Open(certificate.Options{
		Dir: o.Dir, Pair: pairName, Life: certificateLife, Log: o.Log,
		Signer:   certificates.KubeAPIServerClientKubeletSignerName,
		Usages:   []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageClientAuth},
		Template: func() *x509.CertificateRequest { return subject },
		Requests: func(present *tls.Certificate) (kube.CertificateRequests, error) {
			config, err := requestConfig(o, server, present)
			if err != nil {
				return nil, err
			}
			client, err := o.Kinds.Client(config)
			if err != nil {
				return nil, err
			}
			return client.CertificateRequests(), nil
		},
	})
}

// Subject is that of a node's certificates.
func Subject(nodeName string) pkix.Name {
	return pkix.Name{CommonName: commonName(nodeName), Organization: []string{"system:nodes"}}
}

// commonName is that of a node's certificates.
func commonName(nodeName string) string { return "system:node:" + nodeName }

// requestConfig is who asks for a certificate: the one at hand, else the token.
// The file is read each time, as a fresh token may have been delivered.
func requestConfig(o Options, server endpoint, current *tls.Certificate) (*rest.Config, error) {
	if current != nil {
		held := func() *tls.Certificate { return current }
		config, _, err := server.config(held)
		return config, err
	}
	b, err := readBootstrap(o.BootstrapKubeconfig)
	if err != nil {
		return nil, err
	}
	return b.config, nil
}

// awaitCertificate waits for the first certificate.
func awaitCertificate(ctx context.Context, o Options, rotator *certificate.Rotator) error {
	look, complain := time.NewTicker(watchInterval), time.NewTicker(complainInterval)
	defer look.Stop()
	defer complain.Stop()
	for rotator.Current() == nil {
		select {
		case <-look.C:
		case <-complain.C:
			o.Log.Warn("no certificate yet", "node", o.NodeName, "waitingFor", missing(o))
		case <-ctx.Done():
			return fmt.Errorf("waiting for a client certificate: %w", context.Cause(ctx))
		}
	}
	o.Log.Info("client certificate at hand", "node", o.NodeName)
	return nil
}

func missing(o Options) string {
	if _, err := readBootstrap(o.BootstrapKubeconfig); err != nil {
		return "bootstrap credentials: " + err.Error()
	}
	return "the certificate request to be approved, or a bootstrap token that is still valid"
}

// DropForeign moves away what cannot serve as the pair of that name: a certificate for
// another node, or a file that is none. One for other addresses, or that has expired, is
// left to be replaced.
func DropForeign(dir, pairName, nodeName string) error {
	path := certificate.FileOf(dir, pairName)
	pair, err := tls.LoadX509KeyPair(path, path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && pair.Leaf != nil && pair.Leaf.Subject.CommonName == commonName(nodeName) {
		return nil
	}
	if err := os.Rename(path, path+".unusable"); err != nil {
		return fmt.Errorf("moving an unusable certificate %s aside: %w", pairName, err)
	}
	return nil
}
