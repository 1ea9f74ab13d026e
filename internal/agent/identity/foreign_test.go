package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/macfleet/macfleet/internal/atomicfile"
)

func pairOf(t *testing.T, nodeName string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: commonName(nodeName)}}
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

// Another cluster's server is remembered once nothing is left of the one before: who was cut
// off in between would go on with certificates that nobody takes.
func TestAnotherClusterIsRememberedLast(t *testing.T) {
	s := newAPIServer(t)
	dir := t.TempDir()
	o := Options{NodeName: "mac-1", BootstrapKubeconfig: filepath.Join(dir, "bootstrap-kubeconfig"), Dir: dir, Log: slog.New(slog.DiscardHandler)}
	before := endpoint{Server: "https://192.0.2.1:6443", CA: []byte("the one before")}
	if err := remember(filepath.Join(dir, endpointFile), before); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, pairName+"-current.pem")
	if err := os.WriteFile(path, pairOf(t, "mac-1"), 0o600); err != nil {
		t.Fatal(err)
	}
	inTheWay := path + ".unusable"
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	s.deliver(o.BootstrapKubeconfig)
	if _, err := findEndpoint(o); err == nil {
		t.Fatal("the certificate was moved over a directory")
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if _, err := findEndpoint(o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the certificate of the cluster before is still used")
	}
}

// Only an agent that runs makes room on a full disk: what it knows already keeps it from
// nothing there.
func TestAServerThatCannotBeWrittenDownHoldsUpNoRestart(t *testing.T) {
	s := newAPIServer(t)
	for name, c := range map[string]struct {
		known  func(delivered endpoint) endpoint
		starts bool
	}{
		"the same server": {func(e endpoint) endpoint { return e }, true},
		"another address": {func(e endpoint) endpoint { return endpoint{Server: "https://192.0.2.1:6443", CA: e.CA} }, true},
		"another cluster": {func(endpoint) endpoint { return endpoint{Server: "https://192.0.2.1:6443", CA: []byte("another")} }, false},
		"the first start": {func(endpoint) endpoint { return endpoint{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := Options{NodeName: "mac-1", BootstrapKubeconfig: filepath.Join(dir, "bootstrap-kubeconfig"), Dir: dir, Log: slog.New(slog.DiscardHandler)}
			s.deliver(o.BootstrapKubeconfig)
			b, err := readBootstrap(o.BootstrapKubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, endpointFile)
			if err := remember(path, c.known(b.endpoint)); err != nil {
				t.Fatal(err)
			}
			// In the place of the file that is written before it gets its name.
			if err := os.MkdirAll(filepath.Join(atomicfile.Temp(path), "in its place"), 0o700); err != nil {
				t.Fatal(err)
			}
			got, err := findEndpoint(o)
			if (err == nil) != c.starts || c.starts && got.Server != b.Server {
				t.Errorf("server %q, %v", got.Server, err)
			}
		})
	}
}
