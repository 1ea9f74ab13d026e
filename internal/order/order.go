// Package order has servers made for Machines that take none from a pool. An order
// is a Host before it is a server: the Machine's hostRef names it before it exists,
// so that a crash leaves nothing that nobody means. The Machine's controller places
// it, the host controller sends it to the vendor and gives the server a Host of its
// own with the same claim, to which the hostRef then moves. What an order needs next
// is decided in package host.
package order

import (
	"context"
	"fmt"
	"sync"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// New is the order of a Machine, with the claim that its hostRef means and its watch
// filter: the manager that works for the Machine sends it.
func New(m *infrav1.ScalewayAppleSiliconMachine, zone string, claim *infrav1.ClaimReference) *host.Host {
	order := host.New(zone, "", m.Labels[clusterv1.WatchLabel])
	order.Name, order.Finalizers = host.OrderName(m.Name), []string{infrav1.HostFinalizer}
	order.Spec.ClaimRef = claim
	order.Spec.Order = &infrav1.OrderRequest{Name: m.Name, Type: m.Spec.Type, OS: host.OSFamily(m.Spec.OS), Zone: zone, Profile: CountedFor(m)}
	return order
}

// CountedFor names the profile that counts the Machine's order; empty: none does.
func CountedFor(m *infrav1.ScalewayAppleSiliconMachine) string {
	if m.Spec.ProfileRef == nil {
		return ""
	}
	return m.Namespace + "/" + m.Spec.ProfileRef.Name
}

// Placer places the orders of Machines, one after the other.
type Placer struct{ mu sync.Mutex }

// Place makes the Host of an order, unless its profile has ordered as many servers as
// the limit allows: then it says so in exceeded. The limit is read when those before it
// are placed: it may be lower since. Nil: there is none, and nobody is waited for. The
// reader is uncached: another Machine's order of a moment ago counts.
func (p *Placer) Place(ctx context.Context, c client.Writer, reader client.Reader, order *host.Host, limit func() (*int32, error)) (exceeded string, err error) {
	if limit != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if exceeded, err := exceeds(ctx, reader, order.Spec.Order.Profile, limit); err != nil || exceeded != "" {
			return exceeded, err
		}
	}
	if err := c.Create(ctx, order); err != nil {
		return "", fmt.Errorf("creating the order %s: %w", order.Name, err)
	}
	return "", nil
}

// exceeds says why the profile's limit lets nothing more be ordered; empty: it does.
func exceeds(ctx context.Context, reader client.Reader, profile string, limit func() (*int32, error)) (string, error) {
	most, err := limit()
	if err != nil || most == nil {
		return "", err
	}
	list := &infrav1.ScalewayAppleSiliconHostList{}
	if err := reader.List(ctx, list); err != nil {
		return "", fmt.Errorf("counting ordered hosts: %w", err)
	}
	return host.CountOrders(profile, list.Items).Exceeded(profile, most), nil
}

// Delivered finds the Host of the server that an order became, by the claim that both
// carry; nil: there is none. One from a cache must not be changed.
func Delivered(ctx context.Context, reader client.Reader, claim infrav1.ClaimReference) (*host.Host, error) {
	list := &infrav1.ScalewayAppleSiliconHostList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	for i := range list.Items {
		if h := &list.Items[i]; h.Spec.ServerID != "" && host.Carries(h, claim) {
			return h, nil
		}
	}
	return nil, nil
}

// Progress is what the host controller says of an order, for its Machine.
func Progress(order *host.Host) (reason, message string) {
	c := apimeta.FindStatusCondition(order.Status.Conditions, infrav1.OrderedCondition)
	switch {
	case c == nil || c.Reason == "":
		return infrav1.ReasonOrdering, fmt.Sprintf("a server of type %s is being ordered in zone %s", order.Spec.Order.Type, order.Spec.Order.Zone)
	case c.Status == metav1.ConditionTrue:
		return infrav1.ReasonOrdering, "the server of order " + order.Name + " has no Host yet"
	}
	return c.Reason, c.Message
}
