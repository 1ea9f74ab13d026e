package world

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// RunInstalled does what a node would do with the Deployment of somebody who has installed
// the chart in a Bare sandbox: it mounts the vendor's Secret and runs the manager with the
// Deployment's arguments and its ServiceAccount's rights.
func (w *World) RunInstalled(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(w.cluster.Config())
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	deployment, err := client.AppsV1().Deployments(Namespace).Get(ctx, managerServiceAccount, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the manager's Deployment: %w", err)
	}
	if err := w.mountVendorSecret(ctx); err != nil {
		return err
	}
	return w.startManagers(ctx, deployment.Spec.Template.Spec.Containers[0].Args)
}

// AccountKubeconfig writes a kubeconfig with the rights of a ServiceAccount of Namespace.
func (w *World) AccountKubeconfig(ctx context.Context, path, account string) error {
	return w.writeKubeconfig(ctx, path, Namespace, account)
}
