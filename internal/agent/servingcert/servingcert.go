// Package servingcert gets the certificate that the kubelet API is served with: asked
// for at the signer kubernetes.io/kubelet-serving with the node's own identity, for the
// addresses and the name of its Node, and again when they change or it comes to its end.
// Until one is signed, a self-signed one stands in for it, and a condition of the Node
// says so. Who approves the requests is the cluster's business.
package servingcert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/certificate"
	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/identity"
	"github.com/macfleet/macfleet/internal/agent/kube"
)

const (
	// life is asked for; the signer may give less.
	life = 24 * time.Hour
	// watchInterval is how often a signed certificate is looked for; package certificate
	// tells nobody.
	watchInterval = time.Second
	pairName      = "node-server"
)

// Condition of the Node, with its reasons.
const (
	Condition corev1.NodeConditionType = "ServingCertificateReady"

	ReasonSigned     = "Signed"
	ReasonSelfSigned = "SelfSigned"
)

// Options of New. All must be set but Changed and Log.
type Options struct {
	NodeName string
	// Addresses of the Node, its names among them. They are asked for again and again.
	Addresses func() []corev1.NodeAddress
	Client    kube.Client
	// Dir keeps the certificate; only the owner may read it.
	Dir string
	// Changed is called when the condition says something else.
	Changed func()
	Log     *slog.Logger
}

// Certificate is what the kubelet API is served with.
type Certificate struct {
	o       Options
	rotator *certificate.Rotator

	mu sync.Mutex
	// own is the self-signed one, and ownNames what it was made for.
	own      *tls.Certificate
	ownNames *x509.CertificateRequest
}

// New opens the store of the certificate.
func New(o Options) (*Certificate, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the serving certificate: %w", err)
	}
	if err := identity.DropForeign(o.Dir, pairName, o.NodeName); err != nil {
		return nil, err
	}
	c := &Certificate{o: o}
	var err error
	c.rotator, err = certificate.Open(certificate.Options{
		Dir: o.Dir, Pair: pairName, Life: life, Log: o.Log,
		Signer:   certificates.KubeletServingSignerName,
		Usages:   []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageServerAuth},
		Template: c.template,
		Requests: func(*tls.Certificate) (kube.CertificateRequests, error) { return o.Client.CertificateRequests(), nil },
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the serving certificate: %w", err)
	}
	return c, nil
}

// template is what is asked for; nil while there is no name to serve by.
func (c *Certificate) template() *x509.CertificateRequest {
	t := &x509.CertificateRequest{Subject: identity.Subject(c.o.NodeName)}
	for _, a := range c.o.Addresses() {
		if ip := net.ParseIP(a.Address); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if a.Address != "" && !slices.Contains(t.DNSNames, a.Address) {
			t.DNSNames = append(t.DNSNames, a.Address)
		}
	}
	if len(t.IPAddresses)+len(t.DNSNames) == 0 {
		return nil
	}
	return t
}

// Get returns the certificate to serve with now, as tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if signed := c.rotator.Current(); signed != nil {
		return signed, nil
	}
	return c.selfSigned()
}

// Run asks for the certificate, and for the next one, until ctx ends.
func (c *Certificate) Run(ctx context.Context) error {
	was := c.rotator.Current() != nil // before it can change: each change is told
	go c.rotator.Run(ctx)
	look := time.NewTicker(watchInterval)
	defer look.Stop()
	c.o.Changed()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		if is := c.rotator.Current() != nil; is != was {
			was = is
			c.o.Log.Info("serving certificate", "node", c.o.NodeName, "signed", is)
			c.o.Changed()
		}
	}
}

// Check says whether the certificate is a signed one. No guest needs it.
func (c *Certificate) Check() health.Check {
	return health.Check{Type: Condition, Look: func(context.Context) (health.Finding, error) {
		if c.rotator.Current() != nil {
			return health.Finding{Status: corev1.ConditionTrue, Reason: ReasonSigned}, nil
		}
		return health.Finding{
			Status: corev1.ConditionFalse, Reason: ReasonSelfSigned,
			Message: "the kubelet API is served with a self-signed certificate, which an API server with " +
				"--kubelet-certificate-authority refuses: the request of signer " + certificates.KubeletServingSignerName + " is not approved and signed yet",
		}, nil
	}}
}
