package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/converge/document"
)

// token is what was delivered.
const token = "abcdef.0123456789abcdef"

// apiServer signs what it is asked to, and remembers who asked.
type apiServer struct {
	t    *testing.T
	http *httptest.Server
	key  *ecdsa.PrivateKey
	ca   *x509.Certificate
	// authority is delivered beside that of the server.
	authority []byte

	mu       sync.Mutex
	requests []certificates.CertificateSigningRequest
	subjects []pkix.Name
	askers   []string // Authorization header, or the common name of a certificate
	seen     []string // common names that read the Node
}

func newAPIServer(t *testing.T) *apiServer {
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
	s := &apiServer{t: t, key: key, ca: ca}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/certificates.k8s.io/v1/certificatesigningrequests", s.create)
	mux.HandleFunc("GET /apis/certificates.k8s.io/v1/certificatesigningrequests", s.list)
	mux.HandleFunc("GET /api/v1/nodes/{name}", s.node)
	s.http = httptest.NewUnstartedServer(mux)
	s.http.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.http.StartTLS()
	t.Cleanup(s.http.Close)
	return s
}

func asker(r *http.Request) string {
	if len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.CommonName
	}
	return r.Header.Get("Authorization")
}

func (s *apiServer) create(w http.ResponseWriter, r *http.Request) {
	var csr certificates.CertificateSigningRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		// Protobuf, as clients write it.
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &csr)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	serial := int64(len(s.requests) + 2)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: request.Subject,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, s.ca, request.PublicKey, s.key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	csr.Name, csr.UID, csr.ResourceVersion = fmt.Sprint("csr-", serial), "u", "1"
	csr.Status.Conditions = []certificates.CertificateSigningRequestCondition{{Type: certificates.CertificateApproved, Status: corev1.ConditionTrue}}
	csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.requests, s.subjects, s.askers = append(s.requests, csr), append(s.subjects, request.Subject), append(s.askers, asker(r))
	s.reply(w, csr)
}

func (s *apiServer) list(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		// Says that this server streams no lists; the client falls back.
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		s.reply(w, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
		return
	}
	if r.URL.Query().Get("watch") != "" {
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := certificates.CertificateSigningRequestList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, csr := range s.requests {
		if strings.Contains(r.URL.Query().Get("fieldSelector"), csr.Name) {
			list.Items = append(list.Items, csr)
		}
	}
	s.reply(w, list)
}

func (s *apiServer) node(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, asker(r))
	s.reply(w, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.PathValue("name")}})
}

func (s *apiServer) reply(w http.ResponseWriter, o any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(o); err != nil {
		s.t.Error(err)
	}
}

// deliver writes a bootstrap kubeconfig as converge does.
func (s *apiServer) deliver(path string) {
	s.t.Helper()
	ca := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw}), s.authority...)
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": s.http.URL, "certificate-authority-data": ca}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
	}
	data, err := json.Marshal(config)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func begin(t *testing.T, o Options) *Identity {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.Cleanup(stop)
	ready := context.AfterFunc(ctx, stop)
	i, err := Start(living, o)
	if err != nil {
		t.Fatal(err)
	}
	ready()
	return i
}

func newOptions(t *testing.T) Options {
	t.Helper()
	kinds, err := kube.NewKinds()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return Options{NodeName: "mac-1", BootstrapKubeconfig: filepath.Join(dir, "bootstrap-kubeconfig"), Kinds: kinds, Dir: filepath.Join(dir, "identity")}
}

func TestBootstrapThenOwnCertificate(t *testing.T) {
	s := newAPIServer(t)
	o := newOptions(t)
	s.deliver(o.BootstrapKubeconfig)
	i := begin(t, o)

	if len(s.askers) != 1 || s.askers[0] != "Bearer "+token {
		t.Errorf("asked by %q", s.askers)
	}
	subject, spec := s.subjects[0], s.requests[0].Spec
	if subject.CommonName != "system:node:mac-1" || len(subject.Organization) != 1 || subject.Organization[0] != "system:nodes" {
		t.Errorf("subject %v", subject)
	}
	if spec.SignerName != "kubernetes.io/kube-apiserver-client-kubelet" || spec.ExpirationSeconds == nil || *spec.ExpirationSeconds != 86400 {
		t.Errorf("spec %+v", spec)
	}
	readNode(t, i)
	if len(s.seen) != 1 || s.seen[0] != "system:node:mac-1" {
		t.Errorf("the Node was read by %q", s.seen)
	}
	files, err := filepath.Glob(filepath.Join(o.Dir, "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, err %v", files, err)
	}
	for _, f := range files {
		if st, err := os.Stat(f); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, err %v", f, st.Mode(), err)
		}
	}
}

func readNode(t *testing.T, i *Identity) {
	t.Helper()
	config, closeAll, err := i.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Get(t.Context(), "mac-1", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	closeAll()
}

func TestRestartNeedsNoBootstrap(t *testing.T) {
	s := newAPIServer(t)
	o := newOptions(t)
	s.deliver(o.BootstrapKubeconfig)
	begin(t, o)
	if err := os.Remove(o.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	readNode(t, begin(t, o))
	if n := len(s.requests); n != 1 {
		t.Errorf("%d certificates were asked for, want 1", n)
	}
}

// A Mac that comes to another cluster has a certificate that is good for its name, and that
// the other cluster refuses. What it served with is of no use there either.
func TestAnotherClustersTokenGetsNewCertificates(t *testing.T) {
	s := newAPIServer(t)
	o := newOptions(t)
	s.deliver(o.BootstrapKubeconfig)
	begin(t, o)
	served := filepath.Join(o.Dir, "node-server-current.pem")
	if err := os.WriteFile(served, pairOf(t, "mac-1"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.deliver(o.BootstrapKubeconfig) // a fresh token of the same cluster
	begin(t, o)
	if _, err := os.Stat(served); err != nil || len(s.requests) != 1 {
		t.Errorf("%d certificates were asked for, want that of the first start; %v", len(s.requests), err)
	}

	other := newAPIServer(t)
	block, _ := pem.Decode(pairOf(t, "authority"))
	other.authority = pem.EncodeToMemory(block)
	other.deliver(o.BootstrapKubeconfig)
	for range 2 { // that it was another's is so once
		readNode(t, begin(t, o))
	}
	if len(other.askers) != 1 || other.askers[0] != "Bearer "+token {
		t.Errorf("the other cluster was asked by %q, want once with its token", other.askers)
	}
	if _, err := os.Stat(served); err == nil {
		t.Error("the serving certificate of the cluster before is still used")
	}
}

func TestCertificateOfAnotherNodeIsNotUsed(t *testing.T) {
	s := newAPIServer(t)
	o := newOptions(t)
	s.deliver(o.BootstrapKubeconfig)
	begin(t, o)
	o.NodeName = "mac-2"
	begin(t, o)
	if n := len(s.subjects); n != 2 || s.subjects[1].CommonName != "system:node:mac-2" || !strings.HasPrefix(s.askers[1], "Bearer") {
		t.Errorf("subjects %v, asked by %q", s.subjects, s.askers)
	}
}

func TestWaitsForBootstrapCredentials(t *testing.T) {
	s := newAPIServer(t)
	o := newOptions(t)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() {
		_, err := Start(ctx, o)
		done <- err
	}()
	s.deliver(o.BootstrapKubeconfig + ".new")
	if err := os.Rename(o.BootstrapKubeconfig+".new", o.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("the credentials were never taken")
	}
}

func TestErrorsDoNotShowTheToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bootstrap-kubeconfig")
	if err := os.WriteFile(path, []byte("users:\n- name: u\n  user: {token: abcdef.SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := readBootstrap(path)
	if err == nil || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("error %v", err)
	}
}

// What looks at a Mac from outside finds the files by these names.
func TestFilesHaveTheirAgreedNames(t *testing.T) {
	if got := filepath.Join(document.AgentCertDir, pairName+"-current.pem"); got != document.AgentCertFile {
		t.Errorf("the certificate is in %s, agreed is %s", got, document.AgentCertFile)
	}
	if got := filepath.Join(document.AgentCertDir, endpointFile); got != document.AgentServerFile {
		t.Errorf("the server is in %s, agreed is %s", got, document.AgentServerFile)
	}
}
