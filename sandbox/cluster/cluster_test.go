package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// startTimeout bounds a start in tests. It takes 6 s on a quiet machine; on a busy one the control plane alone may take
// ten minutes.
const startTimeout = 10 * time.Minute

// buildForTest builds the sources around this package. From an empty Go cache that takes minutes.
func buildForTest(t *testing.T) Binaries {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real control plane")
	}
	began := time.Now()
	var stage Stage
	binaries, err := Build(t.Context(), BuildOptions{Progress: func(p Progress) {
		if p.Stage != stage {
			stage = p.Stage
			t.Log(p)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("binaries after %s", time.Since(began).Round(10*time.Millisecond))
	return binaries
}

func startForTest(t *testing.T, options Options) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	began := time.Now()
	c, err := Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cluster ready after %s", time.Since(began).Round(10*time.Millisecond))
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestCluster(t *testing.T) {
	binaries := buildForTest(t)
	audit := filepath.Join(t.TempDir(), "audit.log")
	// Far deeper than the name of a Unix socket may be long.
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 20))
	c := startForTest(t, Options{Binaries: binaries, Dir: dir, AuditLog: audit})

	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, pid := range c.PIDs() {
		t.Logf("%s: %s resident", name, residentMemory(t, pid))
	}

	t.Run("api server is ready", func(t *testing.T) {
		body, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		if err != nil || string(body) != "ok" {
			t.Fatalf("/readyz answered %q, %v", body, err)
		}
	})
	t.Run("core's CRDs are served", func(t *testing.T) { testCoreServed(t, client) })
	t.Run("core's webhooks answer", func(t *testing.T) { testWebhooks(t, c) })
	t.Run("cluster-info is public and signed", func(t *testing.T) { testClusterInfo(t, c, client) })
	t.Run("nobody's certificate is approved by default", func(t *testing.T) { testBootstrapTokens(t, c, client) })
	t.Run("kubectl", func(t *testing.T) {
		out, err := binaries.Kubectl(t.Context(), c.Kubeconfig(), "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}").Output()
		if err != nil || string(out) != "kubernetes-admin" {
			t.Fatalf("kubectl auth whoami: %q, %v", out, err)
		}
	})
	t.Run("directory is taken", func(t *testing.T) {
		_, err := Start(t.Context(), Options{Binaries: binaries, Dir: dir})
		if !errors.Is(err, ErrInUse) {
			t.Fatalf("second Start in the directory: %v, want ErrInUse", err)
		}
	})
	t.Run("core can be restarted", func(t *testing.T) { testCoreRestart(t, c) })
	t.Run("requests are audited", func(t *testing.T) {
		data, err := os.ReadFile(audit)
		if err != nil || !bytes.Contains(data, []byte("/api/v1/namespaces/kube-public/configmaps/cluster-info")) {
			t.Fatalf("audit log has %d bytes and no request for cluster-info; %v", len(data), err)
		}
	})
	t.Run("stop leaves nothing", func(t *testing.T) { testStop(t, c, dir) })
	t.Run("objects survive a restart", func(t *testing.T) {
		again := startForTest(t, Options{Binaries: binaries, Dir: dir})
		if _, err := clusters(t, again).Get(t.Context(), "demo", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

func testCoreServed(t *testing.T, client kubernetes.Interface) {
	list, err := client.Discovery().ServerResourcesForGroupVersion("cluster.x-k8s.io/v1beta2")
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, resource := range list.APIResources {
		served[resource.Name] = true
	}
	for _, want := range []string{"clusters", "machines", "machinesets", "machinedeployments", "machinehealthchecks"} {
		if !served[want] {
			t.Errorf("%s is not served", want)
		}
	}
}

func clusterObject(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2",
		"kind":       "Cluster",
		"metadata":   map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{"infrastructureRef": map[string]any{
			"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "NoSuchCluster", "name": name,
		}},
	}}
}

func clusters(t *testing.T, c *Cluster) interface {
	Create(ctx context.Context, obj *unstructured.Unstructured, options metav1.CreateOptions, subresources ...string) (*unstructured.Unstructured, error)
	Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
} {
	t.Helper()
	client, err := newDynamic(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}).Namespace("default")
}

func testWebhooks(t *testing.T, c *Cluster) {
	if _, err := clusters(t, c).Create(t.Context(), clusterObject("demo"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bad := clusterObject("bad")
	// The schema takes any string for a block of addresses; only the webhook parses it.
	if err := unstructured.SetNestedStringSlice(bad.Object, []string{"not-a-block"}, "spec", "clusterNetwork", "pods", "cidrBlocks"); err != nil {
		t.Fatal(err)
	}
	_, err := clusters(t, c).Create(t.Context(), bad, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		t.Fatalf("a Cluster with a wrong CIDR block: %v, want it refused", err)
	}
	if !strings.Contains(err.Error(), "admission webhook") {
		t.Fatalf("refused, but not by a webhook: %v", err)
	}
}

func testClusterInfo(t *testing.T, c *Cluster, client kubernetes.Interface) {
	createBootstrapToken(t, client, "abcdef", "system:bootstrappers:unbound")
	anonymous, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(c.Config()))
	if err != nil {
		t.Fatal(err)
	}
	var info *corev1.ConfigMap
	eventually(t, "cluster-info is signed for the token", func(ctx context.Context) (bool, error) {
		info, err = anonymous.CoreV1().ConfigMaps("kube-public").Get(ctx, "cluster-info", metav1.GetOptions{})
		return err == nil && info.Data["jws-kubeconfig-abcdef"] != "", err
	})
	config, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Clusters[""]; got == nil || got.Server != c.Server() || !bytes.Equal(got.CertificateAuthorityData, c.CA()) {
		t.Errorf("cluster-info names %+v, want %s and the cluster's authority", got, c.Server())
	}
	if len(config.AuthInfos) > 0 {
		t.Error("cluster-info holds a user")
	}
	if _, err := anonymous.CoreV1().ConfigMaps("kube-public").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("anonymous listing of kube-public: %v, want forbidden", err)
	}
}

// testBootstrapTokens asks for a node's certificate with three tokens: one bound to nothing, one that may ask, and one
// that may ask and is approved. The third shows that the approver is at work when the second is still pending.
func testBootstrapTokens(t *testing.T, c *Cluster, client kubernetes.Interface) {
	const asking, approved = "system:bootstrappers:asking", "system:bootstrappers:approved"
	createBootstrapToken(t, client, "asking", asking)
	createBootstrapToken(t, client, "approv", approved)
	bindGroup(t, client, asking, "system:node-bootstrapper")
	bindGroup(t, client, approved, "system:node-bootstrapper")
	bindGroup(t, client, approved, "system:certificates.k8s.io:certificatesigningrequests:nodeclient")

	// The API server learns of tokens and bindings by watching. A request that it refused made nothing, and is made again.
	ask := func(tokenID, name string, tooSoon func(error) bool) error {
		var last error
		eventually(t, "the API server knows "+tokenID, func(context.Context) (bool, error) {
			err := requestNodeCertificate(t, c, tokenID, name)
			if tooSoon(err) && last == nil { // say it once
				t.Logf("%s: %v", name, err)
			}
			last = err
			return !tooSoon(err), nil
		})
		return last
	}
	refused := func(err error) bool { return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) }
	if err := ask("abcdef", "csr-unbound", apierrors.IsUnauthorized); !apierrors.IsForbidden(err) {
		t.Errorf("asking with an unbound token: %v, want forbidden", err)
	}
	if err := ask("asking", "csr-pending", refused); err != nil {
		t.Fatal(err)
	}
	if err := ask("approv", "csr-approved", refused); err != nil {
		t.Fatal(err)
	}
	requests := client.CertificatesV1().CertificateSigningRequests()
	eventually(t, "the bound token's certificate is issued", func(ctx context.Context) (bool, error) {
		csr, err := requests.Get(ctx, "csr-approved", metav1.GetOptions{})
		return err == nil && len(csr.Status.Certificate) > 0, err
	})
	csr, err := requests.Get(t.Context(), "csr-pending", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(csr.Status.Conditions) > 0 || len(csr.Status.Certificate) > 0 {
		t.Errorf("a request that nobody approved has status %+v", csr.Status)
	}
}

func createBootstrapToken(t *testing.T, client kubernetes.Interface, id, group string) {
	t.Helper()
	_, err := client.CoreV1().Secrets("kube-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": tokenSecret, "auth-extra-groups": group,
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

const tokenSecret = "0123456789abcdef"

func bindGroup(t *testing.T, client kubernetes.Interface, group, role string) {
	t.Helper()
	_, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// requestNodeCertificate asks as a kubelet does, with a bootstrap token.
func requestNodeCertificate(t *testing.T, c *Cluster, tokenID, name string) error {
	t.Helper()
	config := rest.AnonymousClientConfig(c.Config())
	config.BearerToken = tokenID + "." + tokenSecret
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	return err
}

func testCoreRestart(t *testing.T, c *Cluster) {
	before := c.PIDs()["core"]
	if err := c.StopCore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if running(before) {
		t.Fatal("core still runs")
	}
	if _, err := clusters(t, c).Create(t.Context(), clusterObject("unseen"), metav1.CreateOptions{}); err == nil {
		t.Fatal("a Cluster was accepted without core's webhooks")
	}
	if err := c.StartCore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := clusters(t, c).Create(t.Context(), clusterObject("seen"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
		t.Fatalf("an asked for stop of core counts as the cluster's end: %v", c.Err())
	default:
	}
}

func testStop(t *testing.T, c *Cluster, dir string) {
	pids := c.PIDs()
	if len(pids) != 2 {
		t.Fatalf("processes before the stop: %v, want two", pids)
	}
	began := time.Now()
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped after %s", time.Since(began).Round(10*time.Millisecond))
	for name, pid := range pids {
		if running(pid) {
			t.Errorf("the %s still runs", name)
		}
	}
	for _, socket := range socketsIn(t, dir) {
		t.Errorf("socket %s is still there", socket)
	}
	server, err := url.Parse(c.Server())
	if err != nil {
		t.Fatal(err)
	}
	if connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Host); err == nil {
		t.Error("the API server's port is still open", connection.Close())
	}
	select {
	case <-c.Done():
		if c.Err() != nil {
			t.Errorf("an asked for stop is an error: %v", c.Err())
		}
	default:
		t.Error("Done is open after Stop")
	}
}

func running(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func socketsIn(t *testing.T, dir string) (sockets []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSocket != 0 {
			sockets = append(sockets, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sockets
}

func residentMemory(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func eventually(t *testing.T, what string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), statePoll, startTimeout, true, condition); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
