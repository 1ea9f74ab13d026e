package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

func parse(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatal("no PEM block")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func read(t *testing.T, b *Bundle, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(b.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestLeavesAreSignedForTheirUse(t *testing.T) {
	now := time.Now()
	b, err := Create(filepath.Join(t.TempDir(), "pki"), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		cert, authority, dnsName string
		usage                    x509.ExtKeyUsage
	}{
		{"apiserver.crt", "ca.crt", "kubernetes.default.svc", x509.ExtKeyUsageServerAuth},
		{"apiserver.crt", "ca.crt", "127.0.0.1", x509.ExtKeyUsageServerAuth},
		{"apiserver.crt", "ca.crt", serviceIP, x509.ExtKeyUsageServerAuth},
		{"webhook/tls.crt", "ca.crt", "127.0.0.1", x509.ExtKeyUsageServerAuth},
		{"apiserver-kubelet-client.crt", "ca.crt", "", x509.ExtKeyUsageClientAuth},
		{"front-proxy-client.crt", "front-proxy-ca.crt", "", x509.ExtKeyUsageClientAuth},
	} {
		t.Run(tc.cert+" "+tc.dnsName, func(t *testing.T) {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(read(t, b, tc.authority))
			_, err := parse(t, read(t, b, tc.cert)).Verify(x509.VerifyOptions{
				Roots: roots, DNSName: tc.dnsName, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{tc.usage},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestASecondStartKeepsWhatOthersTrust(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	kept := []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key", "sa.pub"}
	first, err := Create(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	before := map[string][]byte{}
	for _, name := range append(kept, "apiserver.crt") {
		before[name] = read(t, first, name)
	}
	second, err := Create(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range kept {
		if !bytes.Equal(before[name], read(t, second, name)) {
			t.Errorf("%s changed", name)
		}
	}
	if bytes.Equal(before["apiserver.crt"], read(t, second, "apiserver.crt")) {
		t.Error("the API server's certificate was not issued anew: it would run out one day")
	}
}

func TestADamagedAuthorityIsNotReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	b, err := Create(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.Path("ca.key"), []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, time.Now()); err == nil {
		t.Error("a second authority was made although the first one's certificate is in use")
	}
}

func TestKubeconfigStandsAlone(t *testing.T) {
	b, err := Create(filepath.Join(t.TempDir(), "pki"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := b.WriteKubeconfig(path, "https://127.0.0.1:1", "somebody", "group-a", "group-b"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	subject := parse(t, config.CertData).Subject
	if subject.CommonName != "somebody" || !cmp.Equal(subject.Organization, []string{"group-a", "group-b"}) {
		t.Errorf("the certificate is for %v", subject)
	}
	if !bytes.Equal(config.CAData, b.CA) || config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" {
		t.Error("the kubeconfig refers to other files")
	}
}

func TestPrivateFilesArePrivate(t *testing.T) {
	b, err := Create(filepath.Join(t.TempDir(), "pki"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.WriteKubeconfig(b.Path("admin.kubeconfig"), "https://127.0.0.1:1", "admin"); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(b.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		secret := filepath.Ext(path) == ".key" || filepath.Ext(path) == ".kubeconfig"
		if err == nil && secret && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
