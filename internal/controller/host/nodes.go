package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/watch"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;delete

// nodeDeletion deletes the Nodes of a Mac that was let go, for as long as its old OS
// may still be running: a Mac that left cannot come back as a Node. Only Nodes
// with this host's providerID; never while the Cluster of the claim is paused or
// missing, since then it may have moved elsewhere with its Macs.
// What fails here is tried again at the next Reconcile and does not hold up the wipe.
type nodeDeletion struct {
	*scope
	nodeReader client.Reader // uncached
	nodeWriter client.Writer
}

func (p *nodeDeletion) reconcile(ctx context.Context) {
	if p.host.Spec.ServerID == "" || !host.NodeMustGo(p.host) {
		return
	}
	found, err := p.suspects(ctx)
	for name := range found {
		err = errors.Join(err, p.deleteNode(ctx, name))
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "A Node of a host that was let go is still there")
	}
}

// suspects are the names of Nodes that bear the host's providerID as far as the
// cache knows, and the one of the claim, which the cache may not know yet.
func (p *nodeDeletion) suspects(ctx context.Context) (map[string]bool, error) {
	nodes := &corev1.NodeList{}
	if err := p.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	found := map[string]bool{}
	for i := range nodes.Items {
		if nodes.Items[i].Spec.ProviderID == p.providerID() {
			found[nodes.Items[i].Name] = true
		}
	}
	if claim := p.host.Spec.ClaimRef; claim != nil {
		found[claim.Name] = true
	}
	return found, nil
}

func (p *nodeDeletion) providerID() string {
	return host.ProviderID(p.host.Spec.Zone, p.host.Spec.ServerID)
}

// mayDeleteNodes proves, uncached, that the host is still let go, and that what
// it was let go by is still here and not paused. A detached host has no claim
// that tells its Cluster: then no live Machine may have this Mac.
func (p *nodeDeletion) mayDeleteNodes(ctx context.Context) (bool, error) {
	now := &host.Host{}
	if err := p.Reader.Get(ctx, client.ObjectKeyFromObject(p.host), now); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if now.UID != p.host.UID || !host.NodeMustGo(now) {
		return false, nil
	}
	if claim := p.host.Spec.ClaimRef; claim != nil && claim.Namespace != host.NoNamespace {
		return p.clusterActive(ctx)
	}
	machines, err := allMachines(ctx, p.Reader)
	if err != nil {
		return false, err
	}
	return !host.OwnersOf(machines).Have(p.host), nil
}

// deleteNode deletes one Node if an uncached read shows the host's providerID.
func (p *nodeDeletion) deleteNode(ctx context.Context, name string) error {
	node := &corev1.Node{}
	if err := p.nodeReader.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("reading Node %s: %w", name, err)
	}
	if node.Spec.ProviderID != p.providerID() {
		return nil
	}
	if may, err := p.mayDeleteNodes(ctx); err != nil || !may {
		return err
	}
	uid := node.UID
	if err := p.nodeWriter.Delete(ctx, node, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Node %s: %w", name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted the Node of a host that was let go", "node", node.Name)
	return nil
}

// hostOfNode maps a Node to the host that its providerID names.
func hostOfNode(_ context.Context, o client.Object) []reconcile.Request {
	node, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	zone, id, ok := strings.Cut(strings.TrimPrefix(node.Spec.ProviderID, infrav1.ProviderIDPrefix), "/")
	if !ok || !strings.HasPrefix(node.Spec.ProviderID, infrav1.ProviderIDPrefix) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: host.ObjectName(zone, id)}}}
}

// nodeAppears: a Node that comes, or learns which Mac it is, may be one that must go.
func nodeAppears() predicate.Predicate {
	appears := watch.Updates(func(before, now *corev1.Node) bool { return before.Spec.ProviderID != now.Spec.ProviderID })
	appears.DeleteFunc = func(event.DeleteEvent) bool { return false }
	return appears
}
