package cluster

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// listing is a client that reads lists of custom resources in one pass: there is no other form of
// them than JSON, of which the usual decoder makes two passes, and a thousand Macs are 9 MB.
type listing struct {
	client.WithWatch
	// custom are the ways to the groups of custom resources.
	custom map[schema.GroupVersion]rest.Interface
}

func newListing(c client.WithWatch, config *rest.Config, way *http.Client) (listing, error) {
	l := listing{WithWatch: c, custom: map[schema.GroupVersion]rest.Interface{}}
	for _, group := range []schema.GroupVersion{infrav1.GroupVersion, controlplanev1.GroupVersion, clusterv1.GroupVersion} {
		to, err := apiutil.RESTClientForGVK(group.WithKind(""), false, false, config, serializer.NewCodecFactory(c.Scheme()), way)
		if err != nil {
			return l, fmt.Errorf("preparing a client: %w", err)
		}
		l.custom[group] = to
	}
	return l, nil
}

// List reads as the client does.
func (l listing) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	kind, err := apiutil.GVKForObject(into, l.Scheme())
	if err != nil {
		return err
	}
	to, custom := l.custom[kind.GroupVersion()]
	if !custom {
		return l.WithWatch.List(ctx, into, opts...)
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	mapping, err := l.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	answer := to.Get().NamespaceIfScoped(o.Namespace, mapping.Scope.Name() == meta.RESTScopeNameNamespace).
		Resource(mapping.Resource.Resource).VersionedParams(o.AsListOptions(), metav1.ParameterCodec).Do(ctx)
	if err := answer.Error(); err != nil { // with what the API server says, which Raw leaves out
		return err
	}
	body, err := answer.Raw()
	if err != nil {
		return err
	}
	reflect.ValueOf(into).Elem().SetZero() // as the client empties what it reads into
	if err := json.Unmarshal(body, into, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // which the client leaves out of lists
	return nil
}
