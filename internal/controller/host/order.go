package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// order has a server made, and makes its Host with the claim of the order. The
// order itself stays until its Machine names that Host.
func (p *pass) order(ctx context.Context) (ctrl.Result, error) {
	if p.host.Spec.ClaimRef == nil {
		p.ordered(metav1.ConditionFalse, infrav1.ReasonOrderRejected, "an order needs the claim of its Machine")
		return ctrl.Result{}, nil
	}
	if err := p.findOrderer(ctx); err != nil {
		return ctrl.Result{}, err
	}
	made, err := p.deliveredHost(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if made != nil {
		return p.handOver(ctx, made)
	}
	if wait := p.orderRests(); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return p.orderStep(ctx)
}

// findOrderer reads, uncached, the Machine that holds the order's claim.
func (p *pass) findOrderer(ctx context.Context) error {
	claim := p.host.Spec.ClaimRef
	m := &infrav1.ScalewayAppleSiliconMachine{}
	err := p.Reader.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}, m)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Machine of an order: %w", err)
	}
	if err == nil && host.MeansClaim(p.host, m) {
		p.owner = m
	}
	return nil
}

// orderEnded: the server is no longer wanted, but may have been made.
func (p *pass) orderEnded() bool {
	return p.owner == nil || p.host.Spec.Release != nil || !p.host.DeletionTimestamp.IsZero()
}

// deliveredHost finds the Host that the order became, uncached, by its claim.
func (p *pass) deliveredHost(ctx context.Context) (*host.Host, error) {
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := p.Reader.List(ctx, hosts); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	for i := range hosts.Items {
		h := &hosts.Items[i]
		if h.Spec.ServerID != "" && host.Carries(h, *p.host.Spec.ClaimRef) {
			return h, nil
		}
	}
	return nil, nil
}

// handOver waits until the Machine names the Host that the order became, and then
// ends the order. A release of the order goes to that Host first.
func (p *pass) handOver(ctx context.Context, made *host.Host) (ctrl.Result, error) {
	if err := p.save(ctx, made); err != nil {
		return ctrl.Result{}, err
	}
	p.ordered(metav1.ConditionTrue, infrav1.OrderedCondition, "the server is "+made.Spec.ServerID)
	if p.owner == nil || p.owner.Spec.HostRef.Name == made.Name || p.host.Spec.Release != nil {
		return ctrl.Result{}, p.endOrder(ctx)
	}
	return ctrl.Result{RequeueAfter: p.poll()}, nil
}

// orderStep looks the order's name up at the vendor and does the one next thing.
func (p *pass) orderStep(ctx context.Context) (ctrl.Result, error) {
	look, server, err := p.lookForOrder(ctx)
	if cloud.IsUnknownZone(err) && p.host.Spec.Order.AttemptedAt == nil {
		return p.nowhere(ctx)
	}
	if err != nil {
		p.seen.Refusal = refusal(err)
		p.ordered(metav1.ConditionFalse, infrav1.ReasonOrdering, host.Refused(p.seen.Refusal))
		return p.vendor(ctx, err)
	}
	switch host.NextOrder(p.host, look) {
	case host.OrderDeliver:
		return p.deliver(ctx, server.ID)
	case host.OrderTaken:
		return p.orderTaken(ctx, server)
	case host.OrderDrop:
		ctrl.LoggerFrom(ctx).Info("The order is no longer wanted, and no server came of it", "server", p.host.Spec.Order.Name)
		return ctrl.Result{}, p.endOrder(ctx)
	case host.OrderCreate:
		return p.create(ctx)
	default:
		p.ordered(metav1.ConditionFalse, infrav1.ReasonOrdering, "waiting until the vendor's lists show what became of the order")
		return ctrl.Result{RequeueAfter: p.poll()}, nil
	}
}

// nowhere is an order in a zone that the vendor does not have: nothing was ever
// asked for there, and nothing can be.
func (p *pass) nowhere(ctx context.Context) (ctrl.Result, error) {
	if p.orderEnded() {
		return ctrl.Result{}, p.endOrder(ctx)
	}
	return p.refuseOrder(ctx, infrav1.ReasonOrderRejected, fmt.Sprintf("zone %q does not exist at the vendor", p.host.Spec.Zone)), nil
}

// orderTaken refuses a name that was there before the order, unless an uncached
// read shows that another manager has asked for the server meanwhile.
func (p *pass) orderTaken(ctx context.Context, server cloud.Server) (ctrl.Result, error) {
	if now, err := p.fresh(ctx); err != nil || now == nil || now.Spec.Order.AttemptedAt != nil {
		return ctrl.Result{RequeueAfter: conflictDelay}, err
	}
	taken := &host.NamesakeError{Server: server.ID, Name: server.Name}
	return p.refuseOrder(ctx, infrav1.ReasonOrderRejected, taken.Error()), nil
}

// lookForOrder lists the zone, begun now.
func (p *pass) lookForOrder(ctx context.Context) (host.OrderLook, cloud.Server, error) {
	zone, name := p.host.Spec.Zone, p.host.Spec.Order.Name
	look := host.OrderLook{Began: p.Clock.Now(), Ended: p.orderEnded()}
	look.AttemptSeen = p.orders.noteAttempt(p.host, look.Began)
	servers, err := p.Cloud.ListServers(ctx, zone)
	if err != nil {
		return look, cloud.Server{}, err
	}
	report, _ := p.Inventory.Zone(zone)
	look.Believed = !report.Suspicious && (len(servers) > 0 || p.Cloud.CheckAccess(ctx, zone) == nil)
	look.Empty = len(servers) == 0
	servers = slices.DeleteFunc(servers, func(s cloud.Server) bool { return s.Name != name })
	server, free, err := p.freeOf(ctx, servers)
	if err != nil {
		return look, cloud.Server{}, err
	}
	// What somebody has is not what became of an order that nobody wants any more.
	look.Found = free || (len(servers) > 0 && !(look.Ended && p.host.Spec.Order.AttemptedAt != nil))
	look.LackingSince = p.orders.lacking(p.host, look)
	return look, server, nil
}

// freeOf is the first of the servers of an order's name that is free to take, or just
// the first. There are several when a Machine lost its hostRef and ordered again: what
// the order became is the one that is nobody's.
func (p *pass) freeOf(ctx context.Context, servers []cloud.Server) (server cloud.Server, free bool, err error) {
	for _, server := range servers {
		h := &host.Host{}
		err := p.Reader.Get(ctx, client.ObjectKey{Name: host.ObjectName(p.host.Spec.Zone, server.ID)}, h)
		if client.IgnoreNotFound(err) != nil {
			return cloud.Server{}, false, fmt.Errorf("reading the host of a server that was ordered: %w", err)
		}
		if err != nil {
			return server, true, nil
		}
		if _, taken := host.Deliver(h, p.host, p.Clock.Now()); taken == nil {
			return server, true, nil
		}
	}
	if len(servers) == 0 {
		return cloud.Server{}, false, nil
	}
	return servers[0], false, nil
}

// create records the attempt and then asks for the server.
func (p *pass) create(ctx context.Context) (ctrl.Result, error) {
	if held, err := p.orderHeld(ctx); held || err != nil {
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, err
	}
	image, refused, err := p.checkOrder(ctx)
	if err != nil {
		return p.vendor(ctx, err)
	}
	if refused != "" {
		return p.refuseOrder(ctx, infrav1.ReasonOrderRejected, refused), nil
	}
	at := metav1.NewMicroTime(p.Clock.Now().Truncate(time.Microsecond))
	if err := p.update(ctx, func(h *host.Host) { h.Spec.Order.AttemptedAt = &at }); err != nil {
		return ctrl.Result{}, err
	}
	p.orders.noteAttempt(p.host, p.Clock.Now())
	p.ordered(metav1.ConditionFalse, infrav1.ReasonOrdering, "the server is being ordered")
	if now, err := p.fresh(ctx); err != nil || now == nil || !now.Spec.Order.AttemptedAt.Equal(&at) || p.Clock.Since(at.Time) > host.OrderPrompt {
		return ctrl.Result{RequeueAfter: p.poll()}, err
	}
	return p.ask(ctx, image)
}

// ask sends the order. A refusal rests; an answer that was lost is looked for.
func (p *pass) ask(ctx context.Context, image string) (ctrl.Result, error) {
	order := p.host.Spec.Order
	call, cancel := context.WithTimeout(ctx, host.OrderDeadline)
	defer cancel()
	id, err := p.Cloud.CreateServer(call, p.host.Spec.Zone, cloud.ServerOrder{Name: order.Name, Type: order.Type, OSID: image})
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("Ordered a server", "server", order.Name, "id", id, "type", order.Type)
		return p.deliver(ctx, id)
	}
	if reason := host.OrderRefusal(err); reason != "" {
		// Nothing came of it: a server of this name that shows later is somebody else's.
		if err := p.update(ctx, func(h *host.Host) { h.Spec.Order.AttemptedAt = nil }); err != nil {
			return ctrl.Result{}, err
		}
		return p.refuseOrder(ctx, reason, orderMessage(order, err)), nil
	}
	p.ordered(metav1.ConditionFalse, infrav1.ReasonOrdering, host.Refused(refusal(err)))
	ctrl.LoggerFrom(ctx).Info("An order did not come back; looking for its server", "error", err.Error())
	return ctrl.Result{RequeueAfter: p.poll()}, nil
}

func orderMessage(order *infrav1.OrderRequest, err error) string {
	message := fmt.Sprintf("type %q in zone %s", order.Type, order.Zone)
	if order.OS != "" {
		message += fmt.Sprintf(" with os %q", order.OS)
	}
	return message + ": " + host.Refused(refusal(err))
}

// refuseOrder says why there is no server, and rests.
func (p *pass) refuseOrder(ctx context.Context, reason, message string) ctrl.Result {
	p.ordered(metav1.ConditionFalse, reason, message)
	p.orders.rest(p.host.UID, p.Clock.Now().Add(host.OrderBackOff))
	ctrl.LoggerFrom(ctx).Info("The order is refused", "reason", reason, "why", message)
	return ctrl.Result{RequeueAfter: host.OrderBackOff}
}

// orderRests is how long a refused order rests still. One that is no longer
// wanted, or whose server the inventory saw, does not rest.
func (p *pass) orderRests() time.Duration {
	order := p.host.Spec.Order
	if p.orderEnded() || (order.AttemptedAt != nil && p.Inventory.readings.bears(p.host.Spec.Zone, order.Name)) {
		return 0
	}
	return p.orders.until(p.host.UID).Sub(p.Clock.Now())
}

// orderHeld: a paused Machine or Cluster orders nothing.
func (p *pass) orderHeld(ctx context.Context) (bool, error) {
	if annotations.HasPaused(p.owner) {
		return true, nil
	}
	if p.host.Spec.ClaimRef.Cluster == "" {
		return false, nil
	}
	still, err := p.clusterStill(ctx)
	return !still, err
}

// checkOrder finds the image to install, or what is wrong with the order.
func (p *pass) checkOrder(ctx context.Context) (image, wrong string, err error) {
	order := p.host.Spec.Order
	kinds, err := p.Cloud.ServerTypes(ctx, p.host.Spec.Zone)
	if err != nil {
		return "", "", err
	}
	if wrong := host.UnknownType(p.host.Spec.Zone, order.Type, kinds); wrong != "" {
		return "", wrong, nil
	}
	if order.OS == "" {
		return "", "", nil
	}
	found, err := p.Cloud.FindOS(ctx, p.host.Spec.Zone, order.OS, order.Type)
	if cloud.IsNotFound(err) {
		return "", fmt.Sprintf("os %q for type %s: %s", order.OS, order.Type, strings.TrimSpace(refusal(err))), nil
	}
	return found.ID, "", err
}

// deliver makes the Host of the server that the order became.
func (p *pass) deliver(ctx context.Context, id string) (ctrl.Result, error) {
	made := &host.Host{}
	key := client.ObjectKey{Name: host.ObjectName(p.host.Spec.Zone, id)}
	err := p.Reader.Get(ctx, key, made)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading host %s: %w", key.Name, err)
	}
	if apierrors.IsNotFound(err) {
		made = &host.Host{
			ObjectMeta: metav1.ObjectMeta{Name: key.Name},
			Spec:       infrav1.ScalewayAppleSiliconHostSpec{ServerID: id, Zone: p.host.Spec.Zone},
		}
		if p.WatchFilter != "" {
			made.Labels = map[string]string{clusterv1.WatchLabel: p.WatchFilter}
		}
	}
	if err := p.save(ctx, made); err != nil {
		if taken, ok := errors.AsType[*host.TakenError](err); ok {
			return p.refuseOrder(ctx, infrav1.ReasonOrderRejected, taken.Error()), nil
		}
		return ctrl.Result{}, err
	}
	p.Inventory.hasten() // the server is to be seen at once
	return p.handOver(ctx, made)
}

// save gives the order's claim, and its release, to the Host, and writes it.
func (p *pass) save(ctx context.Context, made *host.Host) error {
	changed, err := host.Deliver(made, p.host, p.Clock.Now())
	if err != nil || !changed {
		return err
	}
	controllerutil.AddFinalizer(made, infrav1.HostFinalizer)
	if made.ResourceVersion == "" {
		err = p.Client.Create(ctx, made)
	} else {
		err = p.Client.Update(ctx, made)
	}
	if err != nil {
		return fmt.Errorf("writing the host of an ordered server: %w", err)
	}
	return nil
}

// endOrder removes the order.
func (p *pass) endOrder(ctx context.Context) error {
	if err := p.letGo(ctx, func(*host.Host) {}); err != nil {
		return err
	}
	if err := p.remove(ctx); err != nil {
		return err
	}
	p.orders.forget(p.host.UID)
	return nil
}

func (p *pass) ordered(status metav1.ConditionStatus, reason, message string) {
	p.condition(infrav1.OrderedCondition, status, reason, message)
}

// orders remembers of each order what a new process may find out again.
type orders struct {
	mu sync.Mutex
	of map[types.UID]orderMemory
}

type orderMemory struct {
	restsUntil, lackingSince time.Time
	// attempt is the last one seen on record, attemptSeen when, by this manager's clock.
	attempt, attemptSeen time.Time
}

func (o *orders) change(uid types.UID, change func(*orderMemory)) orderMemory {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[types.UID]orderMemory{}
	}
	memory := o.of[uid]
	change(&memory)
	o.of[uid] = memory
	return memory
}

// noteAttempt returns when this manager first saw the attempt that is on record; zero
// while nothing was asked for. What lists lacked before it tells nothing of it.
func (o *orders) noteAttempt(h *host.Host, now time.Time) time.Time {
	var attempt time.Time
	if at := h.Spec.Order.AttemptedAt; at != nil {
		attempt = at.Time
	}
	return o.change(h.UID, func(m *orderMemory) {
		switch {
		case attempt.Equal(m.attempt):
		case attempt.IsZero():
			m.attempt, m.attemptSeen, m.lackingSince = attempt, time.Time{}, time.Time{}
		default:
			m.attempt, m.attemptSeen, m.lackingSince = attempt, now, time.Time{}
		}
	}).attemptSeen
}

// lacking is since when lists that are believed, and had to show the attempt, have
// lacked the order's server.
func (o *orders) lacking(h *host.Host, look host.OrderLook) time.Time {
	return o.change(h.UID, func(m *orderMemory) {
		switch {
		case look.Found:
			m.lackingSince = time.Time{}
		case look.Believed && look.Settled(h) && m.lackingSince.IsZero():
			m.lackingSince = look.Began
		}
	}).lackingSince
}

func (o *orders) rest(uid types.UID, until time.Time) {
	o.change(uid, func(m *orderMemory) { m.restsUntil = until })
}

func (o *orders) until(uid types.UID) time.Time {
	return o.change(uid, func(*orderMemory) {}).restsUntil
}

func (o *orders) forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, uid)
}
