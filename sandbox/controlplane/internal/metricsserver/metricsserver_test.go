package metricsserver

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`

// metrics-server was made for another version of Kubernetes than it is built with here.
func TestItIsMadeOfTheTypesOfThisKubernetes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := configure([]string{
		"--secure-port=" + freePort(t), "--bind-address=127.0.0.1",
		"--kubeconfig=" + path, "--authorization-kubeconfig=" + path, "--authentication-kubeconfig=" + path,
		"--authentication-skip-lookup", "--cert-dir=" + dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Complete(); err != nil {
		t.Error(err)
	}
}

// freePort is one that nobody listens on: with 0 it would not listen.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestUnknownFlagsAreRefused(t *testing.T) {
	if _, err := configure([]string{"--metric-colour=blue"}); err == nil || !strings.Contains(err.Error(), "--metric-colour") {
		t.Errorf("error %v", err)
	}
}
