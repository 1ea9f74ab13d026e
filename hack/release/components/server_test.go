package components

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"

	"github.com/macfleet/macfleet/sandbox/cluster"
)

// plainServer is a real API server, without core.
func plainServer(t *testing.T) (*cluster.Cluster, cluster.Binaries) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real control plane")
	}
	binaries, err := cluster.Build(t.Context(), cluster.BuildOptions{SourceDir: root})
	if err != nil {
		t.Fatal(err)
	}
	started, err := cluster.Start(t.Context(), cluster.Options{Binaries: binaries, Dir: t.TempDir(), WithoutCore: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return started, binaries
}

// server is a real API server, to which clusterctl has given what it made of the file.
func server(t *testing.T) *rest.Config {
	t.Helper()
	started, _ := plainServer(t)
	client := clusterctl.New(clusterctl.Kubeconfig{Path: started.Kubeconfig()}, settings(t, nil))
	for range 2 { // as an upgrade to the same version does
		if err := client.ProviderComponents().Create(t.Context(), taken(t).Objs()); err != nil {
			t.Fatal(err)
		}
	}
	return started.Config()
}

// The manager's rights are those that it has with the chart, whatever clusterctl did to
// their namespaces.
func TestClusterctlsManagerMakesBootstrapTokensAndNoOtherSecrets(t *testing.T) {
	admin := server(t)
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + Namespace + ":macfleet-manager", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	manager, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(namespace, name string) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := manager.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	awaitAnswer(t, "in its own namespace", func() (bool, error) {
		err := create(Namespace, "macfleet-builders-ssh")
		return err == nil, err
	})
	for namespace, says := range map[string]string{metav1.NamespaceDefault: "of its own namespace", metav1.NamespaceSystem: "bootstrap tokens in kube-system"} {
		awaitAnswer(t, "the policy's refusal in "+namespace, func() (bool, error) {
			err := create(namespace, "stolen")
			return (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)) && strings.Contains(err.Error(), says), err
		})
	}
	awaitAnswer(t, "the address of the API server", func() (bool, error) {
		_, err := manager.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(t.Context(), "cluster-info", metav1.GetOptions{})
		return !apierrors.IsForbidden(err), err
	})
}

// awaitAnswer asks until it is answered rightly: the API server learns of policies and
// rights by watching, a moment after they were written.
func awaitAnswer(t *testing.T, what string, ask func() (right bool, answer error)) {
	t.Helper()
	var answer error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (right bool, _ error) {
		right, answer = ask()
		return right, nil
	})
	if err != nil {
		t.Errorf("%s: %v", what, answer)
	}
}
