package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/workload"
)

// drainPoll is how often a draining Node's Pods are looked at.
const drainPoll = 5 * time.Second

// nodes finds, drains and deletes the Nodes of Machines.
type nodes struct {
	client client.Client
	clock  clock.PassiveClock
	reader client.Reader
	rights *rights
}

func (p *nodes) drainer() workload.Drainer {
	return workload.Drainer{Client: p.client, Pods: p.reader}
}

// findNode reads the Node of the Machine's name. That it is absent is believed
// of the API server only, since a new token follows from it: promise 10. While a push
// runs nothing follows, and the API server is not asked.
func (p *nodes) findNode(ctx context.Context, v *visit, pushed bool) error {
	if v.nodeRead {
		return nil
	}
	node := &corev1.Node{}
	key := client.ObjectKey{Name: v.Machine.Name}
	err := p.client.Get(ctx, key, node)
	if apierrors.IsNotFound(err) {
		if pushed {
			return nil
		}
		err = p.reader.Get(ctx, key, node)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Node %s: %w", v.Machine.Name, err)
	}
	v.nodeRead = true
	if err == nil {
		v.Node = node
	}
	return nil
}

// drainNode cordons, drains and deletes the Machine's Node where core does not.
// Done means that there is nothing (more) to do. What the API server refuses, as an
// eviction of a Pod with two disruption budgets, is tried again until the time to
// drain is over, and no longer: a deletion must end. Only where no wipe follows is the
// Node waited for, whatever it takes: nothing would delete it later.
func (p *nodes) drainNode(ctx context.Context, v *visit, wiped bool) (ctrl.Result, bool, error) {
	if coreDrains(v) {
		return ctrl.Result{}, true, nil
	}
	node, err := p.ownNode(ctx, v)
	if err != nil || node == nil {
		return ctrl.Result{}, err == nil, err
	}
	drainer := p.drainer()
	left, err := drain(ctx, drainer, node)
	over := !workload.NodeReady(node) || p.drainTimeIsOver(v)
	if !over {
		switch {
		case err != nil:
			v.released = machine.False(infrav1.ReasonDraining, "Node %s cannot be drained: %s", node.Name, err)
			return ctrl.Result{}, false, err
		case left > 0:
			v.released = machine.False(infrav1.ReasonDraining, "Pods still on Node %s: %d", node.Name, left)
			return ctrl.Result{RequeueAfter: drainPoll}, false, nil
		}
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Node deleted without having been drained", "node", node.Name, "error", err.Error())
	}
	err = drainer.DeleteNode(ctx, node)
	if err != nil && !(over && wiped) {
		v.released = machine.False(infrav1.ReasonDraining, "Node %s cannot be deleted: %s", node.Name, err)
		return ctrl.Result{}, false, err
	}
	if err != nil {
		// The host controller deletes it again until the wipe is seen.
		ctrl.LoggerFrom(ctx).Info("Released though its Node cannot be deleted yet", "node", node.Name, "error", err.Error())
	}
	return ctrl.Result{}, true, nil
}

// drain keeps new Pods off the Node, asks its Pods to leave, and returns how many
// are still there.
func drain(ctx context.Context, drainer workload.Drainer, node *corev1.Node) (int, error) {
	if err := drainer.Cordon(ctx, node); err != nil {
		return 0, err
	}
	return drainer.Evict(ctx, node.Name)
}

// coreDrains reports whether Cluster API core has drained the Node before it
// deleted this object, and deletes the Node after it: it does so for a Machine
// that is deleted itself and knows its Node, in a Cluster that lives and has a
// control plane.
func coreDrains(v *visit) bool {
	if v.Owner == nil || v.Owner.DeletionTimestamp.IsZero() || !v.Owner.Status.NodeRef.IsDefined() {
		return false
	}
	return v.Cluster != nil && v.Cluster.DeletionTimestamp.IsZero() && v.Cluster.Spec.ControlPlaneRef.IsDefined()
}

func (p *nodes) drainTimeIsOver(v *visit) bool {
	return p.clock.Since(v.Machine.DeletionTimestamp.Time) >= v.DrainTimeout()
}

// deleteOwnNode deletes the Machine's Node without draining it: its Mac is somebody
// else's, where its Pods may run on.
func (p *nodes) deleteOwnNode(ctx context.Context, v *visit) error {
	node, err := p.ownNode(ctx, v)
	if err != nil || node == nil {
		return err
	}
	return p.drainer().DeleteNode(ctx, node)
}

// deleteLostNode deletes the Machine's Node together with its Pods, whose Mac is proved
// gone: nothing of them runs anywhere. What cannot be removed is the garbage
// collector's, and holds up nothing.
func (p *nodes) deleteLostNode(ctx context.Context, v *visit) error {
	node, err := p.ownNode(ctx, v)
	if err != nil || node == nil {
		return err
	}
	if err := p.drainer().EvictAtOnce(ctx, node); err != nil {
		ctrl.LoggerFrom(ctx).Info("Pods of a Mac that is gone are left to the garbage collector", "node", node.Name, "error", err.Error())
	}
	return p.drainer().DeleteNode(ctx, node)
}

// ownNode returns the Node of the Machine's name, read uncached, if it is this
// Machine's Mac; nil otherwise.
func (p *nodes) ownNode(ctx context.Context, v *visit) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := p.reader.Get(ctx, client.ObjectKey{Name: v.Machine.Name}, node)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Node %s: %w", v.Machine.Name, err)
	}
	if err != nil || node.Spec.ProviderID == "" {
		return nil, nil
	}
	if node.Spec.ProviderID != v.Machine.Spec.ProviderID && node.Spec.ProviderID != hostRefProviderID(v) {
		return nil, nil
	}
	others, err := p.othersNode(ctx, v, node)
	if err != nil || others {
		return nil, err
	}
	return node, nil
}

// othersNode reports, uncached, that the Node of this name is on a Mac that another
// Machine of the name has, or may have: providerID and hostRef can be copied.
func (p *nodes) othersNode(ctx context.Context, v *visit, node *corev1.Node) (bool, error) {
	name := host.NameOf(node.Spec.ProviderID)
	h := &host.Host{}
	err := p.reader.Get(ctx, client.ObjectKey{Name: name}, h)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("reading host %s of Node %s: %w", name, node.Name, err)
	case err != nil:
		h.Name = name
		h.Spec.Zone, h.Spec.ServerID = host.SplitName(name)
	case h.Spec.ClaimRef != nil:
		return host.Namesake(h, v.Machine), nil
	}
	// Nobody holds it: a Machine of the same name may be at work on this very Mac.
	rivals, err := p.rights.rivals(ctx, v.Machine, h)
	return len(rivals) > 0, err
}

// hostRefProviderID is the providerID of the claimed host, or of the one that was
// chosen, for Machines that were not provisioned yet.
func hostRefProviderID(v *visit) string {
	if v.Host != nil {
		return machine.ProviderID(v.Host)
	}
	if ref := v.Machine.Spec.HostRef; ref != nil {
		return host.ProviderID(host.SplitName(ref.Name))
	}
	return ""
}
