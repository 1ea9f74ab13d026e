package machine

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// An order is a Host before it is a server. The intent names it before it exists,
// so that a crash leaves nothing that nobody means; the host controller has the
// server made and gives it a Host of its own with the same claim, to which the
// intent then moves.

// aimAtOrder names the Host of the Machine's order, once it can be placed.
func (r *Reconciler) aimAtOrder(ctx context.Context, v *visit) (string, error) {
	if v.machine.Spec.Type == "" {
		v.claimed = no(infrav1.ReasonOrderRejected, "spec.type is empty: an order must name the server type")
		return "", nil
	}
	name := host.OrderName(v.machine.Name)
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &host.Host{})
	if apierrors.IsNotFound(err) {
		return name, nil
	}
	if err != nil {
		return "", fmt.Errorf("reading host %s: %w", name, err)
	}
	v.claimed = no(infrav1.ReasonOrdering, "an older order named %s has not ended yet", name)
	return "", nil
}

// holdOrder follows an order: to its server where there is one, else it places it,
// or says how far it has come.
func (r *Reconciler) holdOrder(ctx context.Context, v *visit) error {
	moved, err := r.followOrder(ctx, v, r.Client)
	if err != nil || moved {
		return err
	}
	h, verdict, err := r.inspect(ctx, v, r.Client)
	if err != nil {
		return err
	}
	if verdict != host.Ordering {
		if h, verdict, err = r.inspect(ctx, v, r.Reader); err != nil {
			return err
		}
	}
	switch verdict {
	case host.PlaceOrder:
		return r.placeOrder(ctx, v)
	case host.Releasing:
		return r.yield(ctx, v, h)
	case host.Recreated:
		return r.takeBack(ctx, v, h)
	case host.Copied:
		r.refuse(v, copied(v.machine, h))
		return nil
	case host.Lost:
		return r.chooseAgain(ctx, v, "is another Machine's order")
	}
	v.claimed = orderProgress(h)
	return nil
}

// followOrder moves the intent to the Host of the server that was made. What a
// cache says is confirmed; the token stays the same.
func (r *Reconciler) followOrder(ctx context.Context, v *visit, reader client.Reader) (bool, error) {
	h, err := r.orderedServer(ctx, v, reader)
	if err != nil || h == nil {
		return false, err
	}
	fresh := &host.Host{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: h.Name}, fresh); err != nil {
		return false, fmt.Errorf("confirming host %s of an order: %w", h.Name, err)
	}
	if !host.MeansClaim(fresh, v.machine) {
		return false, errStale
	}
	err = r.patch(ctx, v, "intent on the server that was ordered", func(m *infrav1.ScalewayAppleSiliconMachine) {
		m.Spec.HostRef = &infrav1.HostReference{Name: fresh.Name, ClaimToken: m.Spec.HostRef.ClaimToken}
	})
	if err != nil {
		return false, err
	}
	ctrl.LoggerFrom(ctx).Info("The ordered server has its Host", "host", fresh.Name, "serverID", fresh.Spec.ServerID)
	v.claimed = unknown(infrav1.ReasonClaiming, "the ordered server is host %s", fresh.Name)
	return true, nil
}

// orderedServer finds the Host of a server that carries our claim.
func (r *Reconciler) orderedServer(ctx context.Context, v *visit, reader client.Reader) (*host.Host, error) {
	list := &infrav1.ScalewayAppleSiliconHostList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	for i := range list.Items {
		if h := &list.Items[i]; h.Spec.ServerID != "" && host.MeansClaim(h, v.machine) {
			return h, nil
		}
	}
	return nil, nil
}

// placeOrder makes the Host of the order, after uncached reads that prove that the
// Machine still wants it and that no server was made for this token already.
func (r *Reconciler) placeOrder(ctx context.Context, v *visit) error {
	if err := r.confirmIntent(ctx, v, false); err != nil {
		return err
	}
	if moved, err := r.followOrder(ctx, v, r.Reader); err != nil || moved {
		return err
	}
	r.ordering.Lock()
	defer r.ordering.Unlock()
	exceeded, err := r.orderLimit(ctx, v.machine)
	if missing, ok := errors.AsType[*unknownProfileError](err); ok {
		v.claimed = no(infrav1.ReasonUnknownProfile, "%s", missing)
		return nil
	}
	if err != nil {
		return err
	}
	if exceeded != "" {
		v.poll = waitPoll // what was ordered goes without waking us
		v.claimed = no(infrav1.ReasonOrderLimitReached, "%s", exceeded)
		return nil
	}
	if err := r.createOrder(ctx, r.newOrder(v)); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Order placed", "host", host.OrderName(v.machine.Name), "type", v.machine.Spec.Type, "zone", v.zone())
	v.claimed = no(infrav1.ReasonOrdering, "a server of type %s is being ordered in zone %s", v.machine.Spec.Type, v.zone())
	return nil
}

// orderLimit says why the Machine's profile lets nothing more be ordered; empty: it
// does. Uncached: another Machine's order of a moment ago counts.
func (r *Reconciler) orderLimit(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) (string, error) {
	profile, err := r.profile(ctx, m)
	if err != nil || profile.Spec.MaxOrdered == nil {
		return "", err
	}
	list := &infrav1.ScalewayAppleSiliconHostList{}
	if err := r.Reader.List(ctx, list); err != nil {
		return "", fmt.Errorf("counting ordered hosts: %w", err)
	}
	name := orderedFor(m)
	return host.CountOrders(name, list.Items).Exceeded(name, profile.Spec.MaxOrdered), nil
}

// orderedFor names the profile that counts the Machine's order; empty: none does.
func orderedFor(m *infrav1.ScalewayAppleSiliconMachine) string {
	if m.Spec.ProfileRef == nil {
		return ""
	}
	return m.Namespace + "/" + m.Spec.ProfileRef.Name
}

func (r *Reconciler) newOrder(v *visit) *host.Host {
	m := v.machine
	h := &host.Host{
		ObjectMeta: metav1.ObjectMeta{Name: host.OrderName(m.Name), Finalizers: []string{infrav1.HostFinalizer}},
		Spec: infrav1.ScalewayAppleSiliconHostSpec{
			Zone:  v.zone(),
			Order: &infrav1.OrderRequest{Name: m.Name, Type: m.Spec.Type, OS: host.OSFamily(m.Spec.OS), Zone: v.zone(), Profile: orderedFor(m)},
		},
	}
	h.Spec.ClaimRef = v.claimRef()
	return h
}

// createOrder meets another manager's write as any lost race: look again.
func (r *Reconciler) createOrder(ctx context.Context, h *host.Host) error {
	err := r.Client.Create(ctx, h)
	if apierrors.IsAlreadyExists(err) {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("creating the order %s: %w", h.Name, err)
	}
	return nil
}

// orderProgress is what the host controller says of the order.
func orderProgress(h *host.Host) finding {
	c := apimeta.FindStatusCondition(h.Status.Conditions, infrav1.OrderedCondition)
	if c == nil || c.Reason == "" {
		return no(infrav1.ReasonOrdering, "a server of type %s is being ordered in zone %s", h.Spec.Order.Type, h.Spec.Order.Zone)
	}
	if c.Status == metav1.ConditionTrue {
		return no(infrav1.ReasonOrdering, "the server of order %s has no Host yet", h.Name)
	}
	return no(c.Reason, "%s", c.Message)
}

// standingOfOrder is standing for an intent that is an order. Done: v.host is the
// order. Where nothing was made of it yet, the order is made with its release, so
// that another manager's that is on its way finds it taken: it would be a server
// for nobody.
func (r *Reconciler) standingOfOrder(ctx context.Context, v *visit) (done bool, err error) {
	if moved, err := r.followOrder(ctx, v, r.Reader); err != nil || moved {
		return false, err
	}
	h, verdict, err := r.inspect(ctx, v, r.Reader)
	if err != nil {
		return false, err
	}
	switch verdict {
	case host.Ordering, host.Releasing:
		v.host = h
		return true, nil
	case host.PlaceOrder:
		if err := r.confirmDeletion(ctx, v); err != nil {
			return false, err
		}
		h = r.newOrder(v)
		if h.Spec.Zone == "" || h.Spec.Order.Type == "" {
			return false, nil // it could never have been placed
		}
		h.Spec.Release = r.newRelease(v, infrav1.Terminate)
		v.host = h
		return true, r.createOrder(ctx, h)
	}
	return false, nil
}

// cancelOrder releases an order, and the server that was made of it meanwhile.
// Nobody can detach or pool what does not exist: it is given back.
func (r *Reconciler) cancelOrder(ctx context.Context, v *visit) error {
	policy := r.exitPolicy(v, true)
	if policy == infrav1.Detach || r.poolPrefix(v.machine) == "" {
		policy = infrav1.Terminate
	}
	if err := r.recordRelease(ctx, v, policy); err != nil {
		return err
	}
	server, err := r.orderedServer(ctx, v, r.Reader)
	if err != nil {
		return err
	}
	if server != nil && server.Spec.Release == nil {
		v.host = server
		if err := r.recordRelease(ctx, v, policy); err != nil {
			return err
		}
	}
	return r.letGo(ctx, v, "order cancelled")
}
