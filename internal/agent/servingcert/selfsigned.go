package servingcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"time"
)

const (
	// selfSignedLife is that of a kubelet's; nobody trusts it by its end.
	selfSignedLife = 365 * 24 * time.Hour
	// selfSignedSkew is how far the clock of a client may be behind.
	selfSignedSkew = time.Hour
)

// errNoNames: there is nothing to make a certificate for.
var errNoNames = errors.New("the Node has neither an address nor a name")

// selfSigned returns the certificate that stands in, made anew where the names are others.
func (c *Certificate) selfSigned() (*tls.Certificate, error) {
	names := c.template()
	if names == nil {
		return nil, errNoNames
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.own != nil && reflect.DeepEqual(c.ownNames, names) && now.Before(c.own.Leaf.NotAfter) {
		return c.own, nil
	}
	made, err := sign(names, now)
	if err != nil {
		return nil, fmt.Errorf("making a self-signed certificate: %w", err)
	}
	c.own, c.ownNames = made, names
	return made, nil
}

// sign makes a certificate that is signed by its own key.
func sign(names *x509.CertificateRequest, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: names.Subject, DNSNames: names.DNSNames, IPAddresses: names.IPAddresses,
		NotBefore: now.Add(-selfSignedSkew), NotAfter: now.Add(selfSignedLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
