package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/push"
)

// macs are Macs that do at once what they are told, and become Nodes. They answer once
// the channel is closed.
type macs struct {
	client  client.Client
	answers <-chan struct{}
}

func (m macs) Dial(ctx context.Context, target push.Target) (push.Mac, error) {
	select {
	case <-m.answers:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if target.Pin == nil && target.FirstUse != nil {
		return instant(m), target.FirstUse(ctx, hostKey())
	}
	return instant(m), nil
}

func hostKey() infrav1.HostKey {
	return infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: "SHA256:bench"}
}

// instant is one connection.
type instant macs

func (instant) HostKey() infrav1.HostKey                      { return hostKey() }
func (instant) Probe(context.Context) (push.Facts, error)     { return push.Facts{}, nil }
func (instant) Grant(context.Context, cloud.Password) error   { return nil }
func (instant) Receive(context.Context, push.Agent) error     { return nil }
func (instant) Leave(context.Context, *document.Signer) error { return nil }
func (instant) Close() error                                  { return nil }

// Plan finds nothing to do.
func (instant) Plan(context.Context, document.Desired) (document.Report, error) {
	return document.Report{}, nil
}

// Converge makes the Node, as the agent does.
func (m instant) Converge(ctx context.Context, desired document.Desired, _ *document.Signer) (document.Report, error) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: desired.Host.Name},
		Spec:       corev1.NodeSpec{ProviderID: desired.Host.ProviderID},
	}
	if err := m.client.Create(ctx, node); err != nil && !apierrors.IsAlreadyExists(err) {
		return document.Report{}, fmt.Errorf("making the Node: %w", err)
	}
	base := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := m.client.Status().Patch(ctx, node, client.MergeFrom(base)); err != nil {
		return document.Report{}, fmt.Errorf("making the Node ready: %w", err)
	}
	return document.Report{}, nil
}
