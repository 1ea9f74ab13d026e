package servingcert

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/macfleet/macfleet/internal/agent/kubetest"
)

// signer is an API server whose signer signs what it is asked to once it may.
type signer struct {
	*fake.Clientset
	t   *testing.T
	key *ecdsa.PrivateKey
	ca  *x509.Certificate

	mu       sync.Mutex
	requests []certificates.CertificateSigningRequestSpec
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{Clientset: fake.NewClientset(), t: t, key: key, ca: ca}
	s.PrependReactor("create", "certificatesigningrequests", s.create)
	return s
}

// create approves and signs at once.
func (s *signer) create(action clienttesting.Action) (bool, runtime.Object, error) {
	csr, is := action.(clienttesting.CreateAction).GetObject().(*certificates.CertificateSigningRequest)
	if !is {
		return false, nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.requests); n > 0 {
		// The fake knows no field selectors, and would show the former for the new one.
		if err := s.Tracker().Delete(certificates.SchemeGroupVersion.WithResource("certificatesigningrequests"), "", fmt.Sprint("csr-", n)); err != nil {
			return true, nil, err
		}
	}
	s.requests = append(s.requests, csr.Spec)
	csr.Name, csr.UID = fmt.Sprint("csr-", len(s.requests)), types.UID(fmt.Sprint(len(s.requests)))
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return true, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(s.requests) + 1)), Subject: request.Subject, DNSNames: request.DNSNames, IPAddresses: request.IPAddresses,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, s.ca, request.PublicKey, s.key)
	if err != nil {
		return true, nil, err
	}
	csr.Status.Conditions = []certificates.CertificateSigningRequestCondition{{Type: certificates.CertificateApproved, Status: corev1.ConditionTrue}}
	csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return false, nil, nil // and is kept
}

// asked are the requests so far.
func (s *signer) asked() []certificates.CertificateSigningRequestSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// trusts reports that an API server with the signer's authority would take it for host.
func (s *signer) trusts(c *tls.Certificate, host string) bool {
	s.t.Helper()
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		s.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.ca)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
	return err == nil
}

// addresses of a Node that may change.
type addresses struct {
	mu  sync.Mutex
	all []corev1.NodeAddress
}

func (a *addresses) set(ips ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "mac-1"}}
	for _, ip := range ips {
		a.all = append(a.all, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
}

func (a *addresses) get() []corev1.NodeAddress {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}

// start runs a certificate until the test ends.
func start(t *testing.T, o Options) (c *Certificate, changed <-chan struct{}) {
	t.Helper()
	news := make(chan struct{}, 100)
	o.NodeName, o.Log = "mac-1", slog.New(slog.DiscardHandler)
	o.Changed = func() { news <- struct{}{} }
	ctx, cancel := context.WithCancel(t.Context())
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c, news
}

func get(t *testing.T, c *Certificate) *tls.Certificate {
	t.Helper()
	served, err := c.Get(nil)
	if err != nil {
		t.Fatal(err)
	}
	return served
}

// await waits until the certificate is as wanted.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-late:
			t.Fatalf("in vain: %s", what)
		case <-look.C:
		}
	}
}

func status(t *testing.T, c *Certificate) corev1.ConditionStatus {
	t.Helper()
	found, err := c.Check().Look(t.Context())
	if err != nil || found.Blocks {
		t.Fatalf("%+v (%v)", found, err)
	}
	return found.Status
}

func TestASelfSignedOneStandsIn(t *testing.T) {
	var of addresses
	of.set("192.0.2.7")
	c, err := New(Options{NodeName: "mac-1", Addresses: of.get, Client: kubetest.Client(fake.NewClientset()), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	served := get(t, c)
	for _, host := range []string{"192.0.2.7", "mac-1"} {
		if err := served.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if again := get(t, c); again != served {
		t.Error("each connection gets another one")
	}
	if status(t, c) != corev1.ConditionFalse {
		t.Error("nothing says that it is self-signed")
	}
	of.set("192.0.2.8")
	if err := get(t, c).Leaf.VerifyHostname("192.0.2.8"); err != nil {
		t.Errorf("it is for the former address: %v", err)
	}
	of.mu.Lock()
	of.all = nil
	of.mu.Unlock()
	if _, err := c.Get(nil); err == nil {
		t.Error("one for nobody")
	}
}

func TestTheSignedOneIsAskedForAndServed(t *testing.T) {
	api := newSigner(t)
	var of addresses
	of.set("192.0.2.7")
	c, changed := start(t, Options{Addresses: of.get, Client: kubetest.Client(api), Dir: t.TempDir()})
	await(t, "a signed one", func() bool { return api.trusts(get(t, c), "192.0.2.7") && api.trusts(get(t, c), "mac-1") })
	await(t, "the condition", func() bool { return status(t, c) == corev1.ConditionTrue })
	for range 2 { // that it runs, and that it is signed
		<-changed
	}
	spec := api.asked()[0]
	if spec.SignerName != certificates.KubeletServingSignerName || spec.ExpirationSeconds == nil || *spec.ExpirationSeconds != 86400 {
		t.Errorf("asked for %s, %v seconds", spec.SignerName, spec.ExpirationSeconds)
	}
	if want := []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageServerAuth}; !slices.Equal(spec.Usages, want) {
		t.Errorf("usages %v", spec.Usages)
	}
	block, _ := pem.Decode(spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if request.Subject.CommonName != "system:node:mac-1" || !slices.Equal(request.Subject.Organization, []string{"system:nodes"}) {
		t.Errorf("subject %s", request.Subject)
	}
	if !slices.Equal(request.DNSNames, []string{"mac-1"}) || len(request.IPAddresses) != 1 || !request.IPAddresses[0].Equal(net.ParseIP("192.0.2.7")) {
		t.Errorf("names %v %v", request.DNSNames, request.IPAddresses)
	}
}

func TestItIsAskedForAgainWhenAddressesChange(t *testing.T) {
	api := newSigner(t)
	var of addresses
	of.set("192.0.2.7")
	c, _ := start(t, Options{Addresses: of.get, Client: kubetest.Client(api), Dir: t.TempDir()})
	await(t, "the first", func() bool { return api.trusts(get(t, c), "192.0.2.7") })
	of.set("192.0.2.8")
	await(t, "the next", func() bool { return api.trusts(get(t, c), "192.0.2.8") })
	if n := len(api.asked()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A restart asks for nothing, and serves what was signed from the first connection on.
func TestItIsKept(t *testing.T) {
	api, dir := newSigner(t), t.TempDir()
	var of addresses
	of.set("192.0.2.7")
	t.Run("first life", func(t *testing.T) {
		c, _ := start(t, Options{Addresses: of.get, Client: kubetest.Client(api), Dir: dir})
		await(t, "a signed one", func() bool { return api.trusts(get(t, c), "192.0.2.7") })
	})
	c, err := New(Options{NodeName: "mac-1", Addresses: of.get, Client: kubetest.Client(api), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if !api.trusts(get(t, c), "192.0.2.7") || status(t, c) != corev1.ConditionTrue {
		t.Error("the next life has to ask again")
	}
	other, err := New(Options{NodeName: "mac-2", Addresses: of.get, Client: kubetest.Client(api), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if api.trusts(get(t, other), "192.0.2.7") {
		t.Error("another Node serves with it")
	}
}

func TestAFileThatIsNoneIsPutAside(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "node-server-current.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var of addresses
	of.set()
	c, err := New(Options{NodeName: "mac-1", Addresses: of.get, Client: kubetest.Client(fake.NewClientset()), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	get(t, c)
}
