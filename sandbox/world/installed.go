package world

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// account is a ServiceAccount of managers, and the file with its kubeconfig.
type account struct{ namespace, name, kubeconfig string }

// ownManager is that of the release in Namespace.
func ownManager() account {
	return account{namespace: Namespace, name: managerServiceAccount, kubeconfig: managerKubeconfig}
}

// RunInstalled does what a node would do with the Deployment of somebody who has installed
// the chart in a Bare sandbox: it mounts the vendor's Secret and runs the manager with the
// Deployment's arguments and its ServiceAccount's rights.
func (w *World) RunInstalled(ctx context.Context) error {
	args, err := w.deployedArgs(ctx, ownManager())
	if err != nil {
		return err
	}
	if err := w.mountVendorSecret(ctx); err != nil {
		return err
	}
	return w.startManagers(ctx, ownManager(), args)
}

// RunBeside does the same for the Deployment of a second release, in a namespace of its own. Its
// manager has the first one's credentials of the vendor.
func (w *World) RunBeside(ctx context.Context, namespace, deployment string) error {
	second := account{namespace: namespace, name: deployment, kubeconfig: besideKubeconfig}
	args, err := w.deployedArgs(ctx, second)
	if err != nil {
		return err
	}
	return w.startManagers(ctx, second, args)
}

// deployedArgs are the manager's arguments in the Deployment, which is named as its account.
func (w *World) deployedArgs(ctx context.Context, of account) ([]string, error) {
	client, err := kubernetes.NewForConfig(w.cluster.Config())
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	deployment, err := client.AppsV1().Deployments(of.namespace).Get(ctx, of.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the manager's Deployment: %w", err)
	}
	return deployment.Spec.Template.Spec.Containers[0].Args, nil
}

// AccountKubeconfig writes a kubeconfig with the rights of a ServiceAccount.
func (w *World) AccountKubeconfig(ctx context.Context, path, namespace, account string) error {
	return w.writeKubeconfig(ctx, path, namespace, account)
}
