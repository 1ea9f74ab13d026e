// Package clienttest lets controller-runtime's fake client answer as an API server does, for
// the tests of what writes objects. test/api holds both to the same.
package clienttest

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// NewBuilder builds fake clients that keep no managed fields: nothing that is tested with them
// reads any, and they are the greater part of what a write to a fake takes.
func NewBuilder(scheme *runtime.Scheme) *fake.ClientBuilder {
	tracker := testing.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker)
}

// AsServed is a fake client, or one with faults around it, under which an object stays as it
// was sent where its write fails. The fake reads what is stored into the object before it
// refuses an update (versionedTracker.updateObject of its package), and a fault after a write
// stands for an answer that is lost. That an answer replaces all that the object held is the
// same on both sides: the real client empties it first (targetZeroingDecoder of apiutil). Of a
// deletion's preconditions the fake knows the resourceVersion alone; here the UID holds, too.
func AsServed(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return asSent(o, func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return asSent(o, func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return asSent(o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := sameUID(ctx, c, o, opts); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return asSent(o, func() error { return c.SubResource(name).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return asSent(o, func() error { return c.SubResource(name).Patch(ctx, o, p, opts...) })
		},
	})
}

// sameUID refuses a deletion of another object than its precondition names.
func sameUID(ctx context.Context, c client.Client, o client.Object, opts []client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	if options.Preconditions == nil || options.Preconditions.UID == nil {
		return nil
	}
	stored := o.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), stored); err != nil {
		return err
	}
	if wanted := *options.Preconditions.UID; stored.GetUID() != wanted {
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), fmt.Errorf("the UID is %q, not %q", stored.GetUID(), wanted))
	}
	return nil
}

func asSent(o client.Object, write func() error) error {
	sent := o.DeepCopyObject()
	err := write()
	if err != nil {
		reflect.ValueOf(o).Elem().Set(reflect.ValueOf(sent).Elem())
	}
	return err
}
