// Package watch picks the updates that wake a controller.
package watch

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Updates lets those updates through that change what a controller looks at, and every
// other event.
func Updates[T client.Object](changed func(before, now T) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(T)
		now, is := e.ObjectNew.(T)
		return was && is && changed(before, now)
	}}
}
