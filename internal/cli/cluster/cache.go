package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// NewCache is for a verb that goes on showing: it has what is asked of it by watches, of
// one namespace or, where that is empty, of all. Of events it has those about macfleet's
// own objects. Watches that fail are begun again, and nothing is said of it.
func NewCache(config *rest.Config, namespace string) (cache.Cache, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	options := cache.Options{
		Scheme: scheme, Mapper: mapper(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Event{}: {Field: fields.OneTermEqualSelector("involvedObject.apiVersion", infrav1.GroupVersion.String())},
		},
		DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) {},
	}
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	c, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("preparing watches: %w", err)
	}
	return c, nil
}
