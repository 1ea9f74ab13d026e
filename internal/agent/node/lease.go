package node

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/apimachinery/lease"
)

const (
	// leaseSeconds and leaseRenewal are a kubelet's; node monitor grace is 50 s.
	leaseSeconds = 40
	leaseRenewal = 10 * time.Second
)

// beat renews the lease of one life of the Node until ctx ends. A lease owned by a
// Node that was deleted is collected with it.
func (k *Keeper) beat(ctx context.Context, n *corev1.Node) {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
	lease.NewController(k.o.Clock, k.o.LeaseClient, n.Name, leaseSeconds, k.o.OnLeaseTrouble, leaseRenewal, n.Name, corev1.NamespaceNodeLease,
		func(l *coordinationv1.Lease) error {
			l.OwnerReferences = []metav1.OwnerReference{owner}
			return nil
		}).Run(ctx)
}
