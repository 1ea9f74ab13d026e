package node

import (
	"context"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// copying counts the lists of a cache that copy all they show.
type copying struct {
	client.Client
	copies *int
}

func (c copying) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(opts)
	if !ptr.Deref(asked.UnsafeDisableDeepCopy, false) {
		*c.copies++
	}
	return c.Client.List(ctx, list, opts...)
}

// Each change of a Node looks at all hosts and all Machines: of a thousand, two thousand copies each.
func TestALookCopiesNothingOfTheFleet(t *testing.T) {
	w := newWorld(t, append(cluster(false), node(), sash(claim))...)
	copies := 0
	w.r.Client = copying{w.api, &copies}
	if _, gone := w.look(); gone || copies != 0 {
		t.Errorf("%d lists are copied, and the Node is gone: %t", copies, gone)
	}
}
