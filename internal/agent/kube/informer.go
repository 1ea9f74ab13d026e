package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// NewInformer keeps the objects of one kind that a selector takes, by namespace and name.
// c says whether it streams lists, and example is of the kind.
func NewInformer[L runtime.Object](c any, kind Lister[L], example runtime.Object, selector fields.Selector) cache.SharedInformer {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector.String()
			return kind.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector.String()
			return kind.Watch(ctx, o)
		},
	}
	return cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(lw, c), example, 0)
}
