package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/internal/agent/kube"
)

const (
	// leaseSeconds and leaseRenewal are a kubelet's; node monitor grace is 50 s.
	leaseSeconds = 40
	leaseRenewal = 10 * time.Second
	// leaseRetry is the first pause after a failure; it doubles twice. A kubelet waits
	// for its next turn, which may come too late after a network that was silent.
	leaseRetry      = time.Second
	leaseRetrySteps = 3
	// leaseTrouble in a row are not by chance.
	leaseTrouble = 2
)

// heartbeat renews the lease of one life of the Node.
type heartbeat struct {
	leases kube.Leases
	name   string
	// owner is the Node: a lease of one that was deleted is collected with it.
	owner metav1.OwnerReference
	clock clock.WithTicker
	// trouble is called after each failure but the first in a row, back after the
	// success that ends them.
	trouble, back func()
	// complain of a failure.
	complain       func(error)
	renewal, retry time.Duration
}

// beat renews the lease of one life of the Node until ctx ends.
func (k *Keeper) beat(ctx context.Context, n *corev1.Node) {
	h := heartbeat{
		leases: k.o.LeaseClient.Leases(corev1.NamespaceNodeLease),
		name:   n.Name, owner: metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID},
		clock: k.o.Clock, trouble: k.o.OnLeaseTrouble, back: k.resendStatus,
		complain: func(err error) { k.o.Log.Warn("the heartbeat failed", "node", n.Name, "err", err) },
		renewal:  leaseRenewal, retry: leaseRetry,
	}
	h.run(ctx)
}

func (h *heartbeat) run(ctx context.Context) {
	var held *coordinationv1.Lease
	failures := 0
	for ctx.Err() == nil {
		renewed, err := h.renew(ctx, held)
		held = renewed // nil after a failure: the next one reads it
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if failures >= leaseTrouble {
				h.back()
			}
			failures = 0
		default:
			failures++
			h.failed(failures, err)
		}
		h.pause(ctx, failures)
	}
}

func (h *heartbeat) failed(failures int, err error) {
	if failures <= leaseTrouble {
		h.complain(err)
	}
	if failures >= leaseTrouble && h.trouble != nil {
		h.trouble()
	}
}

// renew writes the time into the lease, which is nil when it has to be read first.
func (h *heartbeat) renew(ctx context.Context, held *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if held == nil {
		found, err := h.leases.Get(ctx, h.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return h.create(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the lease: %w", err)
		}
		held = found
	}
	next := held.DeepCopy()
	h.fill(next)
	renewed, err := h.leases.Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("renewing the lease: %w", err)
	}
	return renewed, nil
}

func (h *heartbeat) create(ctx context.Context) (*coordinationv1.Lease, error) {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: h.name, Namespace: corev1.NamespaceNodeLease}}
	h.fill(l)
	made, err := h.leases.Create(ctx, l, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making the lease: %w", err)
	}
	return made, nil
}

func (h *heartbeat) fill(l *coordinationv1.Lease) {
	l.OwnerReferences = []metav1.OwnerReference{h.owner}
	l.Spec.HolderIdentity = ptr.To(h.name)
	l.Spec.LeaseDurationSeconds = ptr.To(int32(leaseSeconds))
	l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(h.clock.Now()))
}

// pause until the next renewal, or the next try. A part of it is random, so that
// the Nodes of a fleet do not come at once.
func (h *heartbeat) pause(ctx context.Context, failures int) {
	wait := h.renewal
	if failures > 0 {
		wait = h.retry << min(failures-1, leaseRetrySteps-1)
	}
	t := h.clock.NewTimer(wait + rand.N(wait/25))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C():
	}
}

// resendStatus has the status sent anew, over the connections that work: the Node may
// have been called Unknown meanwhile, which a watch whose connection died does not
// tell.
func (k *Keeper) resendStatus() {
	k.reconnected.Store(true)
	k.wakeUp()
}
