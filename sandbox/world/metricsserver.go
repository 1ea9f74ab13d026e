package world

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"

	"github.com/macfleet/macfleet/sandbox/subprocess"
)

const (
	metricsServer = "metrics-server"
	// metricsHost is its Service, as the API server expects it in a certificate.
	metricsHost = metricsServer + "." + metav1.NamespaceSystem + ".svc"
	// metricsAPI is the name of the API that it serves.
	metricsAPI = "v1beta1.metrics.k8s.io"
	// metricsGrace is how long it may take to stop. It keeps nothing.
	metricsGrace = 5 * time.Second
)

//go:embed metrics-server.yaml
var metricsServerRights []byte

// startMetricsServer starts Kubernetes' metrics-server as its own ServiceAccount, and
// returns when the API server has it. It has figures of a Node once it has read them twice.
func (w *World) startMetricsServer(ctx context.Context, a *applier) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	rights, err := decode(metricsServerRights)
	if err != nil {
		return fmt.Errorf("reading the rights of metrics-server: %w", err)
	}
	if err := a.applyAll(ctx, rights); err != nil {
		return err
	}
	address := w.network.prefix.Addr().Next() // as for a manager
	port, err := freePort(ctx, address)
	if err != nil {
		return fmt.Errorf("finding a port for metrics-server: %w", err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(metricsHost, nil, nil)
	if err != nil {
		return fmt.Errorf("making a certificate for metrics-server: %w", err)
	}
	at := netip.AddrPortFrom(address, uint16(port))
	if err := w.runMetricsServer(ctx, at, certificate, key); err != nil {
		return err
	}
	// Registered before it serves, it would be looked for again in five seconds.
	if err := a.applyAll(ctx, []*unstructured.Unstructured{metricsService(at), metricsAPIService(at, certificate)}); err != nil {
		return err
	}
	return w.awaitMetricsServer(ctx, "its API to be available", a.metricsAvailable)
}

// runMetricsServer starts the process and waits until it serves.
func (w *World) runMetricsServer(ctx context.Context, at netip.AddrPort, certificate, key []byte) error {
	args, err := w.metricsServerArgs(ctx, certificate, key)
	if err != nil {
		return err
	}
	args = append(args, "--bind-address="+at.Addr().String(), "--secure-port="+strconv.Itoa(int(at.Port())))
	cmd := exec.CommandContext(context.WithoutCancel(ctx), w.options.Binaries.Cluster.ControlPlane, args...) // ctx is the start's
	w.metricsServer, err = subprocess.Start(metricsServer, filepath.Join(w.logDir(), metricsServer+".log"), cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority, ServerName: metricsHost, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	return w.awaitMetricsServer(ctx, "it to serve", func(ctx context.Context) error {
		return live(ctx, &http.Client{Transport: transport}, "https://"+at.String()+"/livez")
	})
}

func live(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// metricsServerArgs writes the files that metrics-server reads. What Macs serve with is
// signed by the cluster's authority, as the API server has it.
func (w *World) metricsServerArgs(ctx context.Context, certificate, key []byte) ([]string, error) {
	dir := filepath.Join(w.options.Dir, metricsServerDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of metrics-server: %w", err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key, "kubelets.crt": w.cluster.CA()} {
		if err := os.WriteFile(file(name), data, 0o600); err != nil {
			return nil, fmt.Errorf("writing the certificates of metrics-server: %w", err)
		}
	}
	kubeconfig := file("kubeconfig")
	if err := w.writeKubeconfig(ctx, kubeconfig, metav1.NamespaceSystem, metricsServer); err != nil {
		return nil, err
	}
	return []string{
		metricsServer,
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--tls-cert-file=" + file("tls.crt"), "--tls-private-key-file=" + file("tls.key"),
		"--kubelet-certificate-authority=" + file("kubelets.crt"),
		"--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port",
		"--metric-resolution=15s",
	}, nil
}

// awaitMetricsServer waits until missing says that nothing is.
func (w *World) awaitMetricsServer(ctx context.Context, what string, missing func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, applyPoll, true, func(ctx context.Context) (bool, error) {
		select {
		case <-w.metricsServer.Ended():
			return false, w.metricsServer.Exit()
		default:
			last = missing(ctx)
			return last == nil, nil
		}
	})
	if err != nil {
		return fmt.Errorf("starting metrics-server: waiting for %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// metricsAvailable says why the API of metrics-server is not.
func (a *applier) metricsAvailable(ctx context.Context) error {
	services := a.client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	service, err := services.Get(ctx, metricsAPI, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(service.Object, "status", "conditions")
	if err != nil {
		return fmt.Errorf("reading the conditions of %s: %w", metricsAPI, err)
	}
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Available" && condition["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("%s is not available: %v", metricsAPI, conditions)
}

// metricsService leads out of the cluster: no Linux node is there to run a Pod behind it.
func metricsService(at netip.AddrPort) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": metricsServer, "namespace": metav1.NamespaceSystem},
		"spec":     map[string]any{"type": "ExternalName", "externalName": at.Addr().String()},
	}}
}

// metricsAPIService has the API server ask metrics-server for what is of its group.
func metricsAPIService(at netip.AddrPort, authority []byte) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": metricsAPI},
		"spec": map[string]any{
			"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"caBundle": base64.StdEncoding.EncodeToString(authority),
			"service":  map[string]any{"name": metricsServer, "namespace": metav1.NamespaceSystem, "port": int64(at.Port())},
		},
	}}
}
