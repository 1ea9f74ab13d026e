package certificate

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
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	certificates "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/macfleet/macfleet/internal/agent/kube"
)

// life of the certificates that the cluster signs.
const life = 10 * time.Hour

// cluster keeps requests, and does with them what a test says.
type cluster struct {
	t   *testing.T
	key *ecdsa.PrivateKey

	mu       sync.Mutex
	requests []*certificates.CertificateSigningRequest
	askers   []*tls.Certificate
	watching *watch.RaceFreeFakeWatcher
	refusing bool
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, key: key}
}

func (c *cluster) Create(_ context.Context, r *certificates.CertificateSigningRequest, _ metav1.CreateOptions) (*certificates.CertificateSigningRequest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusing {
		return nil, apierrors.NewServiceUnavailable("away")
	}
	made := r.DeepCopy()
	made.Name = fmt.Sprint(r.GenerateName, len(c.requests))
	made.UID = types.UID(made.Name)
	c.requests = append(c.requests, made)
	return made.DeepCopy(), nil
}

func (c *cluster) List(_ context.Context, o metav1.ListOptions) (*certificates.CertificateSigningRequestList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := &certificates.CertificateSigningRequestList{}
	for _, r := range c.requests {
		if strings.HasSuffix(o.FieldSelector, "="+r.Name) {
			list.Items = append(list.Items, *r.DeepCopy())
		}
	}
	return list, nil
}

func (c *cluster) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watching = watch.NewRaceFreeFake()
	return c.watching, nil
}

// asked are the requests so far, and with which certificates they were made.
func (c *cluster) asked() ([]*certificates.CertificateSigningRequest, []*tls.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests), slices.Clone(c.askers)
}

// count requests.
func (c *cluster) count() int {
	requests, _ := c.asked()
	return len(requests)
}

// lastAsker is the certificate that the newest request was made with.
func (c *cluster) lastAsker() *tls.Certificate {
	_, askers := c.asked()
	return askers[len(askers)-1]
}

// watcher is the newest watch.
func (c *cluster) watcher() *watch.RaceFreeFakeWatcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watching
}

// refuse has all requests fail, or none.
func (c *cluster) refuse(all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusing = all
}

// sign approves and signs the newest request.
func (c *cluster) sign() *certificates.CertificateSigningRequest {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.requests[len(c.requests)-1]
	block, _ := pem.Decode(r.Spec.Request)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(c.requests))), Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses,
		NotBefore: time.Now(), NotAfter: time.Now().Add(life),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, asked.PublicKey, c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Status.Conditions = []certificates.CertificateSigningRequestCondition{{Type: certificates.CertificateApproved}}
	r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return r.DeepCopy()
}

// named is a template.
func named(names ...string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "mac-1", Organization: []string{"nodes"}}, DNSNames: names}
}

// run keeps a certificate as template says while the test goes on.
func (c *cluster) run(dir string, template func() *x509.CertificateRequest) *Rotator {
	c.t.Helper()
	r, err := Open(Options{
		Dir: dir, Pair: "p", Signer: "s", Usages: []certificates.KeyUsage{certificates.UsageClientAuth}, Life: life,
		Template: template, Log: slog.New(slog.DiscardHandler),
		Requests: func(present *tls.Certificate) (kube.CertificateRequests, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.askers = append(c.askers, present)
			return c, nil
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	c.t.Cleanup(func() {
		cancel()
		<-ended
	})
	synctest.Wait()
	return r
}

// passes lets the time pass.
func passes(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// in runs a test where time is its own.
func in(t *testing.T, test func(t *testing.T, c *cluster, dir string)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { test(t, newCluster(t), dir) })
}

func TestItIsAskedForAndKept(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, dir string) {
		template := named("a")
		r := c.run(dir, func() *x509.CertificateRequest { return template })
		if r.Current() != nil || c.count() != 1 {
			t.Fatalf("before it is signed: %v, %d requests", r.Current(), c.count())
		}
		requests, _ := c.asked()
		if spec := requests[0].Spec; spec.SignerName != "s" || *spec.ExpirationSeconds != 36000 || len(spec.Usages) != 1 {
			t.Errorf("asked for %+v", spec)
		}
		c.watcher().Modify(c.sign())
		synctest.Wait()
		if got := r.Current(); got == nil || got.Leaf.DNSNames[0] != "a" {
			t.Fatalf("it has %v", got)
		}
		info, err := os.Stat(FileOf(dir, "p"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file: %v, %v", info, err)
		}
		again := c.run(dir, func() *x509.CertificateRequest { return template })
		if again.Current() == nil || c.count() != 1 {
			t.Errorf("the next life has %v, after %d requests", again.Current(), c.count())
		}
	})
}

func TestItIsRenewedInTheLastPartOfItsLife(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, dir string) {
		template := named("a")
		r := c.run(dir, func() *x509.CertificateRequest { return template })
		c.watcher().Modify(c.sign())
		synctest.Wait()
		first := r.Current()
		passes(life*7/10 - time.Minute)
		if c.count() != 1 {
			t.Fatalf("%d requests before 70 %% of its life", c.count())
		}
		// One that nobody signs is given up after a quarter of an hour, and none is awaited for a while then.
		for range (life*2/10 + 2*time.Minute) / time.Minute {
			if passes(time.Minute); c.count() > 1 {
				break
			}
		}
		if n := c.count(); n != 2 || c.lastAsker() != first {
			t.Fatalf("%d requests after 90 %% of its life, the last by the one before: %v", n, c.lastAsker() == first)
		}
		if r.Current() != first {
			t.Error("the one before is no longer used though it is valid")
		}
		c.watcher().Modify(c.sign())
		synctest.Wait()
		if r.Current() == first {
			t.Error("the new one is not used")
		}
	})
}

func TestOneThatHasExpiredIsNone(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, dir string) {
		template := named("a")
		r := c.run(dir, func() *x509.CertificateRequest { return template })
		c.watcher().Modify(c.sign())
		synctest.Wait()
		c.refuse(true)
		passes(life + time.Second)
		if r.Current() != nil {
			t.Error("it is used")
		}
		c.refuse(false)
		passes(time.Minute)
		if n := c.count(); n != 2 || c.lastAsker() != nil {
			t.Errorf("%d requests, the last by %v", n, c.lastAsker())
		}
	})
}

func TestRefusedRequestsAreRepeatedAfterAWhile(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, dir string) {
		template := named("a")
		r := c.run(dir, func() *x509.CertificateRequest { return template })
		requests, _ := c.asked()
		denied := requests[0].DeepCopy()
		denied.Status.Conditions = []certificates.CertificateSigningRequestCondition{{Type: certificates.CertificateDenied, Reason: "R"}}
		c.watcher().Modify(denied)
		passes(time.Second)
		if c.count() != 1 {
			t.Fatalf("%d requests within a second", c.count())
		}
		passes(2 * time.Second)
		if c.count() != 2 {
			t.Fatalf("%d requests after three seconds", c.count())
		}
		requests, _ = c.asked()
		c.watcher().Delete(requests[1])
		passes(5 * time.Second)
		if c.count() != 3 {
			t.Fatalf("%d requests after one was deleted", c.count())
		}
		c.watcher().Modify(c.sign())
		synctest.Wait()
		if r.Current() == nil {
			t.Error("the third is not used")
		}
	})
}

func TestARequestForWhatIsNoLongerWantedIsGivenUp(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, dir string) {
		var template atomic.Pointer[x509.CertificateRequest]
		r := c.run(dir, template.Load)
		passes(time.Minute)
		if c.count() != 0 {
			t.Fatal("it asks for nothing in particular")
		}
		template.Store(named("a"))
		passes(2 * time.Second)
		template.Store(named("b"))
		passes(2 * time.Second)
		if c.count() != 2 {
			t.Fatalf("%d requests", c.count())
		}
		c.watcher().Modify(c.sign())
		synctest.Wait()
		if got := r.Current(); got == nil || got.Leaf.DNSNames[0] != "b" {
			t.Fatalf("it has %v", got)
		}
		template.Store(named("b", "c"))
		passes(2 * time.Second)
		if c.count() != 3 {
			t.Errorf("%d requests after a name was added", c.count())
		}
	})
}

func TestAWatchThatEndsIsTakenUpAgain(t *testing.T) {
	in(t, func(t *testing.T, c *cluster, dir string) {
		template := named("a")
		r := c.run(dir, func() *x509.CertificateRequest { return template })
		c.sign() // which the watch does not tell of
		c.watcher().Stop()
		passes(2 * time.Second)
		if r.Current() == nil || c.count() != 1 {
			t.Errorf("it has %v after %d requests", r.Current(), c.count())
		}
	})
}

// A power cut, or somebody's editor: who reads it as none would ask for another one and
// hide what happened.
func TestAFileThatIsNoneIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(FileOf(dir, "p"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir, Pair: "p"}); err == nil || !strings.Contains(err.Error(), "p-current.pem") {
		t.Errorf("error %v", err)
	}
}
