package certificate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"time"

	certificates "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/macfleet/macfleet/internal/agent/kube"
)

var (
	// errOutdated: the certificate that was asked for would not say what it is to say now.
	errOutdated = errors.New("another certificate is wanted by now")
	// errGone: somebody deleted the request.
	errGone = errors.New("the request is gone")
)

// says reports whether a certificate says all that a template asks for. What it says
// beyond that is the signer's business.
func says(c *x509.Certificate, t *x509.CertificateRequest) bool {
	all := func(list, in []string) bool {
		return !slices.ContainsFunc(list, func(s string) bool { return !slices.Contains(in, s) })
	}
	missing := func(ip net.IP) bool { return !slices.ContainsFunc(c.IPAddresses, ip.Equal) }
	return c.Subject.CommonName == t.Subject.CommonName &&
		all(t.Subject.Organization, c.Subject.Organization) &&
		all(t.DNSNames, c.DNSNames) && !slices.ContainsFunc(t.IPAddresses, missing)
}

// newRequest is a key and a request for a certificate of it, both as PEM.
func newRequest(template *x509.CertificateRequest) (key, request []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, private)
	if err != nil {
		return nil, nil, fmt.Errorf("making a request for a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

func (r *Rotator) ask(ctx context.Context, api kube.CertificateRequests, request []byte) (*certificates.CertificateSigningRequest, error) {
	seconds := int32(r.o.Life / time.Second) // a day fits
	return api.Create(ctx, &certificates.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificates.CertificateSigningRequestSpec{
			Request: request, SignerName: r.o.Signer, Usages: r.o.Usages, ExpirationSeconds: &seconds,
		},
	}, metav1.CreateOptions{})
}

// await returns the certificate once it is signed. It gives up when the template changes.
func (r *Rotator) await(ctx context.Context, api kube.CertificateRequests, asked *certificates.CertificateSigningRequest, template *x509.CertificateRequest) ([]byte, error) {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		signed, err := r.watch(ctx, api, asked, template, look.C)
		if err == nil || final(err) {
			return signed, err
		}
		// The watch ended, or the API server is away.
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

// final errors do not go away by looking again.
func final(err error) bool {
	var refused *refusedError
	return errors.As(err, &refused) || errors.Is(err, errOutdated) || errors.Is(err, errGone)
}

// watch looks once and then at what changes, until the watch ends.
func (r *Rotator) watch(ctx context.Context, api kube.CertificateRequests, asked *certificates.CertificateSigningRequest, template *x509.CertificateRequest, look <-chan time.Time) ([]byte, error) {
	ours := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, asked.Name).String()}
	list, err := api.List(ctx, ours)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if signed, err := signedOf(&list.Items[i], asked); signed != nil || err != nil {
			return signed, err
		}
	}
	ours.ResourceVersion = list.ResourceVersion
	w, err := api.Watch(ctx, ours)
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	for {
		select {
		case e, more := <-w.ResultChan():
			if !more {
				return nil, errors.New("the watch ended")
			}
			if signed, err := signedIn(e, asked); signed != nil || err != nil {
				return signed, err
			}
		case <-look:
			if now := r.o.Template(); now != nil && !reflect.DeepEqual(now, template) {
				return nil, errOutdated
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// signedIn is the certificate that an event shows; none where it shows none yet.
func signedIn(e watch.Event, asked *certificates.CertificateSigningRequest) ([]byte, error) {
	seen, is := e.Object.(*certificates.CertificateSigningRequest)
	switch {
	case e.Type == watch.Error:
		return nil, fmt.Errorf("the watch failed: %v", e.Object)
	case !is || e.Type == watch.Bookmark:
		return nil, nil
	case e.Type == watch.Deleted && seen.UID == asked.UID:
		return nil, errGone
	}
	return signedOf(seen, asked)
}

// refusedError: who approves or signs has said no.
type refusedError struct {
	certificates.CertificateSigningRequestCondition
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("it is %s: %s: %s", e.Type, e.Reason, e.Message)
}

// signedOf is the certificate of a request, where it is approved and signed.
func signedOf(seen, asked *certificates.CertificateSigningRequest) ([]byte, error) {
	if seen.UID != asked.UID {
		return nil, nil
	}
	approved := false
	for _, c := range seen.Status.Conditions {
		switch c.Type {
		case certificates.CertificateDenied, certificates.CertificateFailed:
			return nil, &refusedError{c}
		case certificates.CertificateApproved:
			approved = true
		}
	}
	if !approved || len(seen.Status.Certificate) == 0 {
		return nil, nil
	}
	return seen.Status.Certificate, nil
}
