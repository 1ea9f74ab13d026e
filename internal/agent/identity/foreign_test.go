package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
)

func pairOf(t *testing.T, nodeName string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: CommonName(nodeName)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
}

// What another node's certificate would do is be refused by the API server, for ever.
func TestForeignCertificatesAreMovedAside(t *testing.T) {
	for name, c := range map[string]struct {
		text []byte
		kept bool
	}{
		"its own, which has expired": {pairOf(t, "mac-1"), true},
		"another node's":             {pairOf(t, "mac-2"), false},
		"no certificate":             {[]byte("x"), false},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "pair-current.pem")
		if err := os.WriteFile(path, c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := DropForeign(dir, "pair", "mac-1"); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(path)
		if _, aside := os.Stat(path + ".unusable"); (err == nil) != c.kept || (aside == nil) == c.kept {
			t.Errorf("%s: it is there: %v; aside: %v", name, err, aside)
		}
	}
	if err := DropForeign(t.TempDir(), "pair", "mac-1"); err != nil {
		t.Errorf("nothing to drop: %v", err)
	}
}
