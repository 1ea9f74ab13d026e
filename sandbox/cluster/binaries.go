package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Binaries are what Build leaves in its cache. Nothing but these files is needed to start a cluster.
type Binaries struct {
	// ControlPlane is the multi-call binary: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl,
	// metrics-server, up.
	ControlPlane string
	// Core is the manager of Cluster API's core.
	Core string
	// Agnhost is what Kubernetes' own tests run in containers.
	Agnhost string
	// Manifests holds core's CRDs in crds/ and its webhooks in webhooks.yaml, as its module ships them.
	Manifests string
}

// Layout is where they are in a folder that holds them all.
func Layout(dir string) Binaries {
	return Binaries{
		ControlPlane: filepath.Join(dir, "controlplane"),
		Core:         filepath.Join(dir, "core"),
		Agnhost:      filepath.Join(dir, "agnhost"),
		Manifests:    filepath.Join(dir, "manifests"),
	}
}

// EnvtestAssets fills dir with links named etcd, kube-apiserver and kubectl: a folder to give to envtest as
// BinaryAssetsDirectory or in KUBEBUILDER_ASSETS. It may be called again for the same dir.
func (b Binaries) EnvtestAssets(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating the folder of envtest's binaries: %w", err)
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := replaceLink(b.ControlPlane, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return nil
}

// replaceLink never leaves a moment without a link: tests of several packages may share the folder.
func replaceLink(target, link string) error {
	if current, err := os.Readlink(link); err == nil && current == target {
		return nil
	}
	temp := fmt.Sprintf("%s.%d", link, os.Getpid())
	if err := os.Symlink(target, temp); err != nil {
		return err
	}
	return os.Rename(temp, link)
}

// Kubectl is the command `kubectl args...` on the cluster of kubeconfig, not started yet.
func (b Binaries) Kubectl(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.ControlPlane, append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	return cmd
}
