// Package pki makes the certificates, keys and kubeconfigs one sandbox control plane runs on.
//
// Authorities and the service account key outlive a restart, so that clients and tokens of an earlier run stay
// valid; every other certificate is issued anew at each start. What the files are used for is the business of
// package up.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

const (
	// authorityLifetime is what kubeadm gives an authority: ten years.
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// leafLifetime is what kubeadm gives every other certificate: one year.
	leafLifetime = 365 * 24 * time.Hour
	// clockSlack backdates certificates, so that a reader whose clock is a little behind accepts them.
	clockSlack = 5 * time.Minute
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	pem  []byte
	key  *ecdsa.PrivateKey
}

// loadOrCreateAuthority reads dir/name.crt and dir/name.key, and makes them first when either is missing.
func loadOrCreateAuthority(dir, name, commonName string, now time.Time) (*authority, error) {
	a, err := loadAuthority(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return createAuthority(dir, name, commonName, now)
	}
	if err != nil {
		return nil, fmt.Errorf("reading authority %s: %w", name, err)
	}
	return a, nil
}

func loadAuthority(dir, name string) (*authority, error) {
	certPEM, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil, fmt.Errorf("%s.crt holds no PEM block", name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := readKey(filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, pem: certPEM, key: key}, nil
}

func createAuthority(dir, name, commonName string, now time.Time) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing authority %s: %w", name, err)
	}
	a := &authority{cert: cert, pem: encodeCert(der), key: key}
	return a, writePair(dir, name+".crt", name+".key", a.pem, key)
}

// issue signs a certificate for a new key.
func (a *authority) issue(want leaf, now time.Time) (certPEM []byte, key *ecdsa.PrivateKey, err error) {
	key, err = newKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: want.commonName, Organization: want.groups},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(leafLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{want.usage},
		BasicConstraintsValid: true,
		DNSNames:              want.dnsNames,
		IPAddresses:           want.ips,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing certificate for %s: %w", want.commonName, err)
	}
	return encodeCert(der), key, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// newSerial draws 127 random bits: unique in practice, and positive in 16 bytes of DER.
func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}
