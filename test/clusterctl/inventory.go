package clusterctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterctlconfig "sigs.k8s.io/cluster-api/cmd/clusterctl/config"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recorded is how long the API server may take to serve clusterctl's inventory.
const recorded = time.Minute

// RecordCore leaves what `clusterctl init` of core alone leaves, where core runs already:
// clusterctl's inventory with core in it, and its label on core's CRDs. The client knows CRDs.
func RecordCore(ctx context.Context, c client.Client) error {
	if err := createInventory(ctx, c); err != nil {
		return err
	}
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(ctx, crds, client.MatchingLabels{"cluster.x-k8s.io/provider": "cluster-api"}); err != nil {
		return fmt.Errorf("listing the CRDs of core: %w", err)
	}
	if len(crds.Items) == 0 {
		return errors.New("there are no CRDs of core")
	}
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"clusterctl.cluster.x-k8s.io":""}}}`))
	for i := range crds.Items {
		if err := c.Patch(ctx, &crds.Items[i], label); err != nil {
			return fmt.Errorf("labelling the CRD %s: %w", crds.Items[i].Name, err)
		}
	}
	return recordProvider(ctx, c)
}

// createInventory creates the kinds of clusterctl's inventory.
func createInventory(ctx context.Context, c client.Client) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(clusterctlconfig.ClusterctlAPIManifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading clusterctl's inventory: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("creating clusterctl's inventory: %w", err)
		}
	}
}

// recordProvider puts core into the inventory, once the API server serves that.
func recordProvider(ctx context.Context, c client.Client) error {
	core := &unstructured.Unstructured{Object: map[string]any{
		"metadata":     map[string]any{"name": "cluster-api", "namespace": "default"},
		"providerName": "cluster-api", "type": "CoreProvider", "version": "v1.14.2",
	}}
	core.SetGroupVersionKind(schema.GroupVersionKind{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Kind: "Provider"})
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, recorded, true, func(ctx context.Context) (bool, error) {
		last = c.Create(ctx, core.DeepCopy())
		return last == nil || apierrors.IsAlreadyExists(last), nil
	})
	if err != nil {
		return fmt.Errorf("recording core in clusterctl's inventory: %w", errors.Join(err, last))
	}
	return nil
}
