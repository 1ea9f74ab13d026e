package cluster

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// ManagerLease is the name of the Lease that the manager that works renews, in the namespace
// of its release: leaderElectionID in cmd/manager.
const ManagerLease = "macfleet-manager"

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
			&coordinationv1.Lease{}: {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, ManagerLease)},
			&corev1.Event{}:         {Field: fields.OneTermEqualSelector("involvedObject.apiVersion", infrav1.GroupVersion.String())},
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
	// Lists name the Lease, too, which a cache answers by an index alone.
	err = c.IndexField(context.Background(), &coordinationv1.Lease{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} })
	if err != nil {
		return nil, fmt.Errorf("preparing watches: %w", err)
	}
	return c, nil
}
