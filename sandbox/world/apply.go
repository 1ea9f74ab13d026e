package world

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// The chart, rendered for the sandbox by `make generate`.
var (
	//go:embed rendered/crds.yaml
	renderedCRDs []byte
	//go:embed rendered/chart.yaml
	renderedChart []byte
)

const (
	fieldManager = "macfleet-sandbox"
	// applyPoll is how often something is applied again while the API server does
	// not know its kind yet, or a webhook does not answer yet.
	applyPoll = 100 * time.Millisecond
	// applyTimeout bounds that: a busy machine takes minutes where a quiet one takes a second.
	applyTimeout = 5 * time.Minute
)

// applier applies manifests, server-side, as the administrator.
type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newApplier(config *rest.Config) (*applier, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a discovery client: %w", err)
	}
	return &applier{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))}, nil
}

// install applies the product's CRDs, its namespace and the chart.
func (a *applier) install(ctx context.Context, chart []*unstructured.Unstructured) error {
	crds, err := decode(renderedCRDs)
	if err != nil {
		return fmt.Errorf("reading the CRDs: %w", err)
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace},
	}}
	return a.applyAll(ctx, slices.Concat(crds, []*unstructured.Unstructured{namespace}, chart))
}

func (a *applier) applyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := a.apply(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// apply applies one object, and again while its kind or its webhook is on the way.
func (a *applier) apply(ctx context.Context, object *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, applyPoll, true, func(ctx context.Context) (bool, error) {
		last = a.applyOnce(ctx, object)
		if meta.IsNoMatchError(last) {
			a.mapper.Reset()
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), errors.Join(last, err))
	}
	return nil
}

func (a *applier) applyOnce(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = corev1.NamespaceDefault
		}
		resource = a.client.Resource(mapping.Resource).Namespace(namespace)
	}
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// decode reads a stream of YAML documents.
func decode(manifests []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// ofFleets reports that an object of the chart belongs to its fleets, and not to macfleet.
func ofFleets(object *unstructured.Unstructured) bool {
	return strings.HasSuffix(object.GroupVersionKind().Group, "cluster.x-k8s.io") || object.GetKind() == "Secret"
}

// managerFlags are the arguments that the chart's Deployment gives the manager.
func managerFlags(chart []*unstructured.Unstructured) ([]string, error) {
	for _, object := range chart {
		if object.GetKind() != "Deployment" || object.GetName() != managerServiceAccount {
			continue
		}
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) == 0 {
			return nil, fmt.Errorf("reading the manager's container in the chart: %w", err)
		}
		container, _ := containers[0].(map[string]any)
		flags, _, err := unstructured.NestedStringSlice(container, "args")
		return flags, err
	}
	return nil, errors.New("the chart has no Deployment of the manager")
}
