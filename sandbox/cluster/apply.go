package cluster

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const (
	// fieldManager owns what a sandbox applies; a second Start in the same directory takes over from the first.
	fieldManager = "macfleet-sandbox"
	// applyAtOnce bounds parallel requests: more gain nothing on two cores.
	applyAtOnce = 8
	// statePoll is how often something local and quick is asked whether it is there yet.
	statePoll = 50 * time.Millisecond
)

func crdResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

func webhookResource(kind string) schema.GroupVersionResource {
	resource := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1"}
	if kind == "MutatingWebhookConfiguration" {
		resource.Resource = "mutatingwebhookconfigurations"
	} else {
		resource.Resource = "validatingwebhookconfigurations"
	}
	return resource
}

// applyCore applies core's CRDs and webhooks for webhooks at e, and waits until the CRDs are established.
func applyCore(ctx context.Context, config *rest.Config, manifests string, e endpoint) error {
	crds, err := renderCRDs(manifests, e)
	if err != nil {
		return err
	}
	webhooks, err := renderWebhooks(manifests, e)
	if err != nil {
		return err
	}
	client, err := newDynamic(config)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(applyAtOnce)
	for _, crd := range crds {
		group.Go(func() error { return apply(groupCtx, client, crdResource(), crd) })
	}
	for _, webhook := range webhooks {
		group.Go(func() error { return apply(groupCtx, client, webhookResource(webhook.GetKind()), webhook) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return waitEstablished(ctx, client, crds)
}

func newDynamic(config *rest.Config) (dynamic.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 200, 200 // client-go's 5 a second would stretch the start
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	return client, nil
}

func apply(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, object *unstructured.Unstructured) error {
	_, err := client.Resource(resource).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

func waitEstablished(ctx context.Context, client dynamic.Interface, crds []*unstructured.Unstructured) error {
	for _, crd := range crds {
		err := wait.PollUntilContextCancel(ctx, statePoll, true, func(ctx context.Context) (bool, error) {
			current, err := client.Resource(crdResource()).Get(ctx, crd.GetName(), metav1.GetOptions{})
			return err == nil && established(current), err
		})
		if err != nil {
			return fmt.Errorf("waiting for CRD %s to be established: %w", crd.GetName(), err)
		}
	}
	return nil
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if ok && condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}
