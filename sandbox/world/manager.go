package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/sandbox/subprocess"
)

const (
	// managerGrace is how long a manager may take to stop.
	managerGrace = 20 * time.Second
	// managerReady bounds its start: a busy machine takes minutes where a quiet one takes seconds.
	managerReady = 5 * time.Minute
	// accountToken is how long a token lives: longer than anyone keeps a sandbox.
	accountToken = 30 * 24 * time.Hour
)

// manager is one manager process and how it is started.
type manager struct {
	name   string
	log    string
	args   []string
	env    []string
	binary string
	health string
	// metrics is the host and port of its metrics.
	metrics string

	restarts restarts

	mu      sync.Mutex
	process *subprocess.Process
	// unkeep ends that it is kept, and kept is closed after; nil: it never was.
	unkeep context.CancelFunc
	kept   chan struct{}
}

// writeKubeconfig writes a kubeconfig for a ServiceAccount, so that a process has exactly
// its rights.
func (w *World) writeKubeconfig(ctx context.Context, path, namespace, account string) error {
	client, err := kubernetes.NewForConfig(w.cluster.Config())
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(accountToken / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking for the token of %s: %w", account, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["sandbox"] = &clientcmdapi.Cluster{Server: w.cluster.Server(), CertificateAuthorityData: w.cluster.CA()}
	config.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["sandbox"] = &clientcmdapi.Context{Cluster: "sandbox", AuthInfo: account, Namespace: namespace}
	config.CurrentContext = "sandbox"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", account, err)
	}
	return nil
}

// newManager prepares the n-th manager process.
func (w *World) newManager(ctx context.Context, n int, kubeconfig string, flags []string) (*manager, error) {
	// An address of this sandbox's own: connections of everybody leave from 127.0.0.1, and one of them could take
	// the port before the manager does.
	address := w.network.prefix.Addr().Next()
	ports, err := freePorts(ctx, address, 2)
	if err != nil {
		return nil, fmt.Errorf("finding ports for the manager: %w", err)
	}
	name := fmt.Sprintf("manager-%d", n)
	health, metrics := fmt.Sprintf("%s:%d", address, ports[0]), fmt.Sprintf("%s:%d", address, ports[1])
	args := append([]string{}, flags...)
	args = append(args,
		"--kubeconfig="+kubeconfig,
		"--vendor-credentials="+w.vendorMount(),
		"--agent-dir="+w.options.Binaries.AgentDir,
		"--ssh-port="+strconv.Itoa(w.network.sshPort),
		"--metrics-bind-address="+metrics,
		"--health-probe-bind-address="+health,
	)
	return &manager{
		name:    name,
		log:     filepath.Join(w.logDir(), name+".log"),
		args:    append(args, w.options.ManagerArgs...),
		env:     w.options.ManagerEnv,
		binary:  w.options.Binaries.Manager,
		health:  "http://" + health + "/readyz",
		metrics: metrics,
	}, nil
}

// start starts the process and waits until it says that it is ready.
func (m *manager) start(ctx context.Context) error {
	cmd := exec.Command(m.binary, m.args...)
	cmd.Env = append(os.Environ(), m.env...)
	process, err := subprocess.Start(m.name, m.log, cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.process = process
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, managerReady)
	defer cancel()
	err = wait.PollUntilContextCancel(ctx, applyPoll, true, func(ctx context.Context) (bool, error) {
		select {
		case <-process.Ended():
			return false, process.Exit()
		default:
			return m.ready(ctx), nil
		}
	})
	if err != nil {
		return errors.Join(fmt.Errorf("waiting for the %s to be ready (see %s): %w", m.name, m.log, err), m.stop(ctx))
	}
	return nil
}

func (m *manager) current() *subprocess.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

func (m *manager) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.health, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

func (m *manager) stop(ctx context.Context) error {
	process := m.current()
	if process == nil {
		return nil
	}
	return process.Stop(ctx, managerGrace)
}
