package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/sandbox/cluster"
)

const (
	nodeName   = "mac-1"
	providerID = "scw-applesilicon://fr-par-1/11111111-1111-4111-8111-111111111111"
	image      = "registry.test/macos/base:v1"
	// patience bounds every wait; a quiet machine needs a few seconds for each.
	patience = 90 * time.Second
)

// commands play the Mac below the agent.
var commands = map[string]string{
	"sysctl":  `printf '8\n17179869184\nBOOT-SESSION-1\n'`,
	"sw_vers": `printf 'ProductName:\t\tmacOS\nProductVersion:\t\t26.0\nBuildVersion:\t\t25A354\n'`,
	"ioreg":   `echo '"IOPlatformUUID" = "0A1B2C3D-0000-1111-2222-333344445555"'`,
	"df":      `printf 'Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/disk3s5 239362496 99362496 140000000 42%% /\n'`,
}

// stage is a control plane and one Mac.
type stage struct {
	t       *testing.T
	cluster *cluster.Cluster
	client  kubernetes.Interface
	binary  string
	dir     string
	agent   *exec.Cmd
	log     *output
}

func newStage(t *testing.T) *stage {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real control plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	binaries, err := cluster.Build(ctx, cluster.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(ctx, cluster.Options{Binaries: binaries, Dir: filepath.Join(t.TempDir(), "cluster")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	config := c.Config()
	config.QPS, config.Burst = 200, 200 // the tests look often
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, cluster: c, client: client, log: &output{}}
	s.prepareMac()
	s.bindBootstrappers()
	return s
}

func (s *stage) prepareMac() {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "mac") // short: sockets live in it
	if err != nil {
		s.t.Fatal(err)
	}
	s.dir = dir
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.t.Cleanup(s.killAll)
	for _, d := range []string{"bin", "state", "fake"} {
		if err := os.Mkdir(s.path(d), 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
	for name, script := range commands {
		s.write(filepath.Join("bin", name), "#!/bin/sh\n"+script+"\n", 0o755)
	}
	s.binary = s.build("tart-kubelet", "./cmd/tart-kubelet")
	s.build("tart", "./sandbox/mac/tart/cmd/tart")
	config, err := json.Marshal(document.AgentConfig{
		Schema: document.ConfigSchema,
		Host:   document.Host{Name: nodeName, ProviderID: providerID, Epoch: 1, User: "m1", Address: "127.9.8.7", Zone: "fr-par-1", ServerType: "M2-M", Fleet: "ci"},
		Node:   document.Node{MaxVMs: 2},
		Mac:    document.Mac{Network: document.Network{Subnet: document.DefaultSubnet}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("agent.json", string(config), 0o600)
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) write(name, text string, mode os.FileMode) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) build(name, pkg string) string {
	s.t.Helper()
	out := s.path(filepath.Join("bin", name))
	cmd := exec.CommandContext(s.t.Context(), "go", "build", "-o", out, pkg)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("building %s: %v\n%s", name, err, text)
	}
	return out
}

// bindBootstrappers is the one binding that joining needs. Nobody approves by
// itself; approve plays the provider.
func (s *stage) bindBootstrappers() {
	s.t.Helper()
	_, err := s.client.RbacV1().ClusterRoleBindings().Create(s.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrappers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:bootstrappers:macfleet"}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// deliver brings a token and a permit, as converge does.
func (s *stage) deliver(permit string) {
	s.t.Helper()
	id, secret := "abcdef", "0123456789abcdef"
	_, err := s.client.CoreV1().Secrets("kube-system").Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
			"auth-extra-groups": "system:bootstrappers:macfleet",
			"expiration":        time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: s.cluster.Server(), CertificateAuthorityData: s.cluster.CA()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: id + "." + secret}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "c",
	}
	if err := clientcmd.WriteToFile(config, s.path("bootstrap-kubeconfig")); err != nil {
		s.t.Fatal(err)
	}
	s.permit(permit)
}

func (s *stage) permit(id string) {
	s.t.Helper()
	data, err := json.Marshal(document.JoinPermit{ID: id, NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("permit.new", string(data), 0o600)
	if err := os.Rename(s.path("permit.new"), s.path("join-permit.json")); err != nil {
		s.t.Fatal(err)
	}
}

// startAgent starts the agent; it is stopped with the test.
func (s *stage) startAgent() {
	s.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(s.t.Context()), s.binary, "run", "--config", s.path("agent.json"), "--state-dir", s.path("state"),
		"--bootstrap-kubeconfig", s.path("bootstrap-kubeconfig"), "--join-permit", s.path("join-permit.json"),
		"--tart", s.path("bin/tart"), "--tart-home", s.path("tart"), "--hostd-socket=")
	cmd.Env = []string{
		"HOME=" + s.dir, "PATH=" + s.path("bin") + ":/usr/bin:/bin",
		"TART_FAKE_STATE=" + s.path("fake"), "TART_FAKE_FAULTS=" + s.path("plan.json"), "TART_FAKE_LEASES=" + s.path("leases"),
	}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.agent = cmd
}

// endAgent ends the agent with a signal to its whole group, as launchd may.
func (s *stage) endAgent(sig syscall.Signal) {
	s.t.Helper()
	if s.agent == nil {
		return
	}
	if err := syscall.Kill(-s.agent.Process.Pid, sig); err != nil {
		s.t.Error(err)
	}
	_ = s.agent.Wait()
	s.agent = nil
}

// killAll leaves no process of this Mac behind, guests included.
func (s *stage) killAll() {
	s.endAgent(syscall.SIGKILL)
	if s.t.Failed() {
		s.t.Logf("the agent said:\n%s", s.log)
	}
	for range 3 {
		for _, pid := range s.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// processes that run one of the Mac's binaries.
func (s *stage) processes() []int {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return nil
	}
	var pids []int
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && strings.HasPrefix(target, s.dir) {
			var pid int
			if _, err := fmt.Sscanf(l, "/proc/%d/exe", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func (s *stage) await(what string, done func() bool) {
	s.t.Helper()
	late := time.After(patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-late:
			s.t.Fatalf("never happened: %s", what)
		}
	}
}

// approve approves the pending request for the node's name.
func (s *stage) approve() {
	s.t.Helper()
	s.await("a certificate request", func() bool {
		list, err := s.client.CertificatesV1().CertificateSigningRequests().List(s.t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return false
		}
		csr := &list.Items[0]
		if len(csr.Status.Conditions) > 0 {
			s.t.Fatalf("the request was approved by itself: %+v", csr.Status)
		}
		csr.Status.Conditions = append(csr.Status.Conditions, certificates.CertificateSigningRequestCondition{
			Type: certificates.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "approved by the test",
		})
		_, err = s.client.CertificatesV1().CertificateSigningRequests().UpdateApproval(s.t.Context(), csr.Name, csr, metav1.UpdateOptions{})
		return err == nil
	})
}
