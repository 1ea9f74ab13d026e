package schedule

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

var errUnserved = errors.New("the store of this test does not serve that")

// view is what is read from: a store, or the copy of it that a manager's watches
// have made so far.
type view interface {
	get(kind string, key client.ObjectKey) client.Object
	list(kind string) []client.Object
}

func (s *store) get(kind string, key client.ObjectKey) client.Object { return s.tables[kind][key] }
func (s *store) list(kind string) []client.Object                    { return s.all(kind) }

// cache follows the log of each kind, at a pace that the schedule decides.
type cache struct {
	of *store
	// hides is a namespace that is not watched; empty: none.
	hides string
	seen  map[string]int
	table map[string]map[client.ObjectKey]client.Object
}

func newCache(of *store, hides string) *cache {
	c := &cache{of: of, hides: hides, seen: map[string]int{}, table: map[string]map[client.ObjectKey]client.Object{}}
	c.sync()
	return c
}

// sync delivers all events.
func (c *cache) sync() {
	for kind := range c.of.log {
		c.deliver(kind, len(c.of.log[kind]))
	}
}

// deliver brings the next events of a kind and reports how many there were.
func (c *cache) deliver(kind string, most int) int {
	news := c.of.log[kind][c.seen[kind]:]
	news = news[:min(most, len(news))]
	c.seen[kind] += len(news)
	if c.table[kind] == nil {
		c.table[kind] = map[client.ObjectKey]client.Object{}
	}
	for _, event := range news {
		switch {
		case c.hidden(event.key):
		case event.object == nil:
			delete(c.table[kind], event.key)
		default:
			c.table[kind][event.key] = event.object
		}
	}
	return len(news)
}

func (c *cache) hidden(key client.ObjectKey) bool { return c.hides != "" && key.Namespace == c.hides }

func (c *cache) get(kind string, key client.ObjectKey) client.Object { return c.table[kind][key] }
func (c *cache) list(kind string) []client.Object                    { return sorted(c.table[kind]) }

// port is a manager's way to its API server. Reads come from the view; what is
// not from the cache passes the gate, where it can fail, be the last, or wait.
type port struct {
	m     *manager
	store *store
	from  view
}

var _ client.Client = (*port)(nil)

func (p *port) cached() bool { _, is := p.from.(*cache); return is }

// pass brings an act through the gate, with the object as it is now, however late it lands. What
// the act makes of it is read into the object only where the answer comes.
func (p *port) pass(ctx context.Context, verb string, object client.Object, act func(sent client.Object) error) error {
	call := operation{manager: p.m, verb: verb, kind: p.store.kind(object), key: client.ObjectKeyFromObject(object)}
	sent := object.DeepCopyObject().(client.Object)
	if err := p.m.sim.through(ctx, call, func() error { return act(sent) }); err != nil {
		return err
	}
	return assign(object, sent)
}

// Get implements client.Reader.
func (p *port) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	kind := p.store.kind(object)
	if c, is := p.from.(*cache); is && c.hidden(key) {
		return errHidden(key)
	}
	var found client.Object
	read := func() error {
		if found = p.from.get(kind, key); found == nil {
			return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
		}
		return nil
	}
	if err := p.read(ctx, operation{manager: p.m, verb: "get", kind: kind, key: key}, read); err != nil {
		return err
	}
	return assign(object, found.DeepCopyObject().(client.Object))
}

// read brings a read through the gate, but one from the cache.
func (p *port) read(ctx context.Context, call operation, read func() error) error {
	if p.cached() {
		return read()
	}
	return p.m.sim.through(ctx, call, read)
}

// List implements client.Reader.
func (p *port) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind := p.store.kind(list)
	var found []client.Object
	read := func() error {
		found = p.from.list(kind)
		return nil
	}
	if err := p.read(ctx, operation{manager: p.m, verb: "list", kind: kind}, read); err != nil {
		return err
	}
	return fill(list, found, opts)
}

func fill(list client.ObjectList, objects []client.Object, opts []client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	var picked []runtime.Object
	for _, object := range objects {
		if picks(options, object) {
			picked = append(picked, object.DeepCopyObject())
		}
	}
	return meta.SetList(list, picked)
}

func picks(options *client.ListOptions, object client.Object) bool {
	if options.Namespace != "" && object.GetNamespace() != options.Namespace {
		return false
	}
	if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	if options.FieldSelector == nil || options.FieldSelector.Empty() {
		return true
	}
	pod, is := object.(*corev1.Pod)
	if !is {
		panic(errUnserved) // a field that no index of the test serves
	}
	return options.FieldSelector.Matches(fields.Set{"spec.nodeName": pod.Spec.NodeName})
}

// Create implements client.Writer.
func (p *port) Create(ctx context.Context, object client.Object, _ ...client.CreateOption) error {
	return p.pass(ctx, "create", object, p.store.create)
}

// Update implements client.Writer.
func (p *port) Update(ctx context.Context, object client.Object, _ ...client.UpdateOption) error {
	return p.pass(ctx, "update", object, func(sent client.Object) error {
		if sent.GetResourceVersion() == "" && !builtin(p.store.kind(sent)) {
			return apierrors.NewBadRequest("an update needs a resourceVersion")
		}
		return p.store.update(sent, false)
	})
}

// Patch implements client.Writer.
func (p *port) Patch(ctx context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return p.patch(ctx, "patch", object, patch, false)
}

func (p *port) patch(ctx context.Context, verb string, object client.Object, patch client.Patch, statusOnly bool) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	return p.pass(ctx, verb, object, func(sent client.Object) error { return p.store.patch(sent, data, statusOnly) })
}

// Delete implements client.Writer.
func (p *port) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	return p.pass(ctx, "delete", object, func(sent client.Object) error {
		return p.store.delete(sent, options.Preconditions)
	})
}

// DeleteAllOf implements client.Writer.
func (p *port) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errUnserved
}

// Apply implements client.Writer.
func (p *port) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errUnserved
}

// Status implements client.StatusClient.
func (p *port) Status() client.SubResourceWriter { return subresource{p, "status"} }

// SubResource implements client.Client.
func (p *port) SubResource(name string) client.SubResourceClient { return subresource{p, name} }

// Scheme implements client.Client.
func (p *port) Scheme() *runtime.Scheme { return p.store.scheme }

// RESTMapper implements client.Client.
func (p *port) RESTMapper() meta.RESTMapper { return nil }

// GroupVersionKindFor implements client.Client.
func (p *port) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(object, p.store.scheme)
}

// IsObjectNamespaced implements client.Client.
func (p *port) IsObjectNamespaced(object runtime.Object) (bool, error) {
	kind := p.store.kind(object)
	return kind != "Node" && !strings.HasSuffix(kind, "Host"), nil
}

type subresource struct {
	*port
	name string
}

// Get implements client.SubResourceReader.
func (r subresource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errUnserved
}

// Create implements client.SubResourceWriter: an eviction ends a Pod at once.
func (r subresource) Create(ctx context.Context, object, _ client.Object, _ ...client.SubResourceCreateOption) error {
	return r.pass(ctx, "evict", object, func(sent client.Object) error { return r.store.delete(sent, &metav1.Preconditions{}) })
}

// Update implements client.SubResourceWriter.
func (r subresource) Update(ctx context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	return r.pass(ctx, "update status of", object, func(sent client.Object) error { return r.store.update(sent, true) })
}

// Patch implements client.SubResourceWriter.
func (r subresource) Patch(ctx context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return r.patch(ctx, "patch status of", object, patch, true)
}

// Apply implements client.SubResourceWriter.
func (r subresource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errUnserved
}
