package cluster

import (
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func TestEnvtestRunsOnTheSameBinary(t *testing.T) {
	binaries := buildForTest(t)
	assets := filepath.Join(t.TempDir(), "assets")
	for range 2 { // a second caller finds the links of the first
		if err := binaries.EnvtestAssets(assets); err != nil {
			t.Fatal(err)
		}
	}
	// envtest's own 20 s are too few for a machine that others use.
	env := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 3 * time.Minute, ControlPlaneStopTimeout: 3 * time.Minute}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
}
