package clienttest

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Copies is a client that counts the lists which copy all that they show out of a cache, by the
// type of the list, as %T writes it.
type Copies struct {
	client.Client
	Of map[string]int
}

// List counts the list, unless it asks for no copies.
func (c Copies) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(opts)
	if !ptr.Deref(asked.UnsafeDisableDeepCopy, false) {
		c.Of[fmt.Sprintf("%T", list)]++
	}
	return c.Client.List(ctx, list, opts...)
}
