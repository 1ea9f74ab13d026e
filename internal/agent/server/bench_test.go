package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/kubetest"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t: t, cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue makes a certificate, changed as wanted.
func (a *authority) issue(change func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	change(c)
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) client(name string, groups ...string) tls.Certificate {
	return a.issue(func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: name, Organization: groups} })
}

// apiServer knows tokens and what users may do: "<user> <verb> <subresource>".
type apiServer struct {
	*fake.Clientset
	mu      sync.Mutex
	tokens  map[string]string
	may     []string
	denied  []string
	failing bool
	asked   map[string]int
	groups  []string
}

func newAPIServer() *apiServer {
	a := &apiServer{Clientset: fake.NewClientset(), tokens: map[string]string{}, asked: map[string]int{}}
	a.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		a.asked["token"]++
		if a.failing {
			return true, nil, io.ErrUnexpectedEOF
		}
		name, good := a.tokens[review.Spec.Token]
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: good, User: authenticationv1.UserInfo{Username: name}}
		return true, review, nil
	})
	a.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		r := review.Spec.ResourceAttributes
		a.asked["access"]++
		if a.failing {
			return true, nil, io.ErrUnexpectedEOF
		}
		a.groups = review.Spec.Groups
		asked := review.Spec.User + " " + r.Verb + " " + r.Subresource
		allowed := r.Resource == "nodes" && r.Name == "mac-1" && slices.Contains(a.may, asked)
		review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: allowed, Denied: slices.Contains(a.denied, asked)}
		return true, review, nil
	})
	return a
}

func (a *apiServer) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *apiServer) count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[what]
}

// patience with a busy machine: what it bounds takes moments, or hours where it hangs.
const patience = 5 * time.Minute

// guests are a Backend; exec, attach and dial are what a test says.
type guests struct {
	mu         sync.Mutex
	containers map[string]Container
	exec       func(context.Context, vm.GuestCommand, vm.Streams) (int, error)
	attach     func(context.Context, vm.Streams) error
	dial       func(port uint16) (net.Conn, error)
}

func (g *guests) Pods() []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []*corev1.Pod
	for _, c := range g.containers {
		list = append(list, c.Pod)
	}
	return list
}

func (*guests) ProbeMetrics() string { return "prober_probe_total 1\n" }

func (g *guests) Container(_ context.Context, namespace, pod, uid, container string) (Container, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := ErrPodNotFound
	for _, c := range g.containers {
		if c.Pod.Namespace != namespace || c.Pod.Name != pod || uid != "" && string(c.Pod.UID) != uid {
			continue
		}
		if c.Name == container || container == "" && c.Running {
			return c, nil
		}
		found = ErrContainerNotFound
	}
	return Container{}, found
}

func (g *guests) Exec(ctx context.Context, _ Container, c vm.GuestCommand, s vm.Streams) (int, error) {
	return g.exec(ctx, c, s)
}

func (g *guests) Attach(ctx context.Context, _ Container, s vm.Streams) error {
	return g.attach(ctx, s)
}

func (g *guests) Dial(_ context.Context, _ Container, port uint16) (net.Conn, error) {
	return g.dial(port)
}

// put changes a container.
func (g *guests) put(c Container) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.containers[c.Name] = c
}

// running is a container of Pod ci/build that runs.
func running(name string) Container {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "build", UID: "uid-1"}}
	pod.Spec.Containers = []corev1.Container{{Name: name}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: name, ContainerID: "tart://vm-1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	return Container{Pod: pod, Name: name, Running: true, Stdin: true}
}

// bench is a server, and clients of it.
type bench struct {
	*guests
	t      *testing.T
	api    *apiServer
	ca     *authority
	server *Server
	addr   string
	stop   context.CancelFunc
}

func newBench(t *testing.T, c clock.WithTicker) *bench {
	t.Helper()
	return newLoggedBench(t, c, slog.New(slog.DiscardHandler))
}

func newLoggedBench(t *testing.T, c clock.WithTicker, log *slog.Logger) *bench {
	t.Helper()
	b := &bench{t: t, api: newAPIServer(), ca: newAuthority(t), guests: &guests{containers: map[string]Container{"main": running("main")}}}
	b.api.tokens["good"] = "alice"
	b.api.may = []string{"alice create proxy", "alice get proxy"}
	serving := b.ca.issue(func(c *x509.Certificate) {
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	var err error
	b.server, err = New(Options{
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &serving, nil },
		ClientCA:    b.ca.pem, Client: kubetest.Client(b.api), NodeName: "mac-1", Backend: b.guests, Clock: c,
		Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.server.Serve(ctx, l) }()
	b.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		done <- nil
	}
	t.Cleanup(b.stop)
	return b
}

// config of a client with a token.
func (b *bench) config(token string) *rest.Config {
	return &rest.Config{Host: "https://" + b.addr, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: b.ca.pem}}
}

// client without a token, and perhaps with certificates.
func (b *bench) client(certificates ...tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(b.ca.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots,
		// Whatever the server would like to see.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certificates) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certificates[0], nil
		},
	}}
	b.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// send returns the code and the body of an answer.
func (b *bench) send(client *http.Client, method, path, token string) (int, string) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, "https://"+b.addr+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func (b *bench) get(path string) (int, string) {
	b.t.Helper()
	return b.send(b.client(), http.MethodGet, path, "good")
}

// expect sends and compares.
func (b *bench) expect(client *http.Client, path, token string, code int, text string) {
	b.t.Helper()
	gotCode, got := b.send(client, http.MethodGet, path, token)
	if gotCode != code || !strings.Contains(got, text) {
		b.t.Errorf("%s: %d %q, want %d %q", path, gotCode, got, code, text)
	}
}
