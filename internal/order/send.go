package order

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/clusterstate"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/memo"
)

// Object is the Host of an order while the host controller reconciles it.
type Object interface {
	// Host as it was read or written last.
	Host() *host.Host
	// Update writes the spec under the resourceVersion of Host.
	Update(ctx context.Context, change func(*host.Host)) error
	// Confirm reads it uncached; nil: it has changed hands.
	Confirm(ctx context.Context) (*host.Host, error)
	// Report sets the condition Ordered.
	Report(status metav1.ConditionStatus, reason, message string)
	// Refused turns an error of the vendor's into what the work queue is to do.
	Refused(ctx context.Context, err error) (ctrl.Result, error)
	// Delete removes the finalizer, and the object.
	Delete(ctx context.Context) error
}

// Zones is the inventory of the vendor's zones.
type Zones interface {
	// Zone tells how the last list of a zone went.
	Zone(zone string) (host.ZoneReport, bool)
	// Bears reports that a server of the zone was last seen under the name.
	Bears(zone, name string) bool
	// ListNow begins the next lists.
	ListNow()
}

// Sender has the server of one order made, and makes its Host with the claim of the
// order. The order itself stays until its Machine names that Host.
type Sender struct {
	Object
	Client client.Client
	Reader client.Reader // uncached
	Cloud  cloud.Cloud
	Zones  Zones
	Clock  clock.PassiveClock
	Memory *Memory
	// Poll, Interval and ConflictDelay are when to look again: after an act of the
	// vendor's, of a person, and of another manager.
	Poll, Interval, ConflictDelay time.Duration
	// WatchFilter is the watch-filter label of new Hosts; empty: none.
	WatchFilter string

	owner *infrav1.ScalewayAppleSiliconMachine
}

// Reconcile does the next thing for the order.
func (s *Sender) Reconcile(ctx context.Context) (ctrl.Result, error) {
	if s.Host().Spec.ClaimRef == nil {
		s.Report(metav1.ConditionFalse, infrav1.ReasonOrderRejected, "an order needs the claim of its Machine")
		return ctrl.Result{}, nil
	}
	if err := s.findOwner(ctx); err != nil {
		return ctrl.Result{}, err
	}
	made, err := Delivered(ctx, s.Reader, *s.Host().Spec.ClaimRef)
	if err != nil {
		return ctrl.Result{}, err
	}
	if made != nil {
		return s.awaitMachine(ctx, made)
	}
	if wait := s.backOff(); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return s.step(ctx)
}

// findOwner reads, uncached, the Machine that holds the order's claim.
func (s *Sender) findOwner(ctx context.Context) error {
	claim := s.Host().Spec.ClaimRef
	m := &infrav1.ScalewayAppleSiliconMachine{}
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}, m)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Machine of an order: %w", err)
	}
	if err == nil && host.MeansClaim(s.Host(), m) {
		s.owner = m
	}
	return nil
}

// ended: the server is no longer wanted, but may have been made.
func (s *Sender) ended() bool {
	return s.owner == nil || s.Host().Spec.Release != nil || !s.Host().DeletionTimestamp.IsZero()
}

// step looks the order's name up at the vendor and does the one next thing.
func (s *Sender) step(ctx context.Context) (ctrl.Result, error) {
	in, server, err := s.lookUp(ctx)
	if cloud.IsUnknownZone(err) && s.Host().Spec.Order.AttemptedAt == nil {
		return s.unknownZone(ctx)
	}
	if err != nil {
		s.Report(metav1.ConditionFalse, infrav1.ReasonOrdering, host.Refused(cloud.Said(err)))
		return s.Refused(ctx, err)
	}
	switch host.NextOrder(s.Host(), in) {
	case host.OrderDeliver:
		return s.deliver(ctx, server.ID)
	case host.OrderTaken:
		return s.nameTaken(ctx, server)
	case host.OrderDrop:
		ctrl.LoggerFrom(ctx).Info("The order is no longer wanted, and no server came of it", "server", s.Host().Spec.Order.Name)
		return ctrl.Result{}, s.end(ctx)
	case host.OrderCreate:
		return s.send(ctx)
	default:
		s.Report(metav1.ConditionFalse, infrav1.ReasonOrdering, s.waitsFor(in))
		return ctrl.Result{RequeueAfter: s.Poll}, nil
	}
}

// waitsFor says why an order is not sent, or not sent again, yet.
func (s *Sender) waitsFor(in host.OrderInput) string {
	zone := s.Host().Spec.Zone
	report, _ := s.Zones.Zone(zone)
	switch {
	case report.Suspicious:
		return fmt.Sprintf("the list of zone %s is not believed, since %s from it: nothing is ordered until they are back or given up; see `kubectl get sash` for those that are missing", zone, report.Vanished())
	case !in.Believed:
		return fmt.Sprintf("zone %s lists no server, and the vendor does not confirm the rights to it", zone)
	}
	return "waiting until the vendor's lists show what became of the order"
}

// unknownZone is an order in a zone that the vendor does not have: nothing was ever
// asked for there, and nothing can be.
func (s *Sender) unknownZone(ctx context.Context) (ctrl.Result, error) {
	if s.ended() {
		return ctrl.Result{}, s.end(ctx)
	}
	return s.refuse(ctx, infrav1.ReasonOrderRejected, fmt.Sprintf("zone %q does not exist at the vendor", s.Host().Spec.Zone)), nil
}

// nameTaken refuses a name that was there before the order, unless an uncached
// read shows that another manager has asked for the server meanwhile.
func (s *Sender) nameTaken(ctx context.Context, server cloud.Server) (ctrl.Result, error) {
	if now, err := s.Confirm(ctx); err != nil || now == nil || now.Spec.Order.AttemptedAt != nil {
		return ctrl.Result{RequeueAfter: s.ConflictDelay}, err
	}
	taken := &host.NamesakeError{Server: server.ID, Name: server.Name}
	return s.refuse(ctx, infrav1.ReasonOrderRejected, taken.Error()), nil
}

// lookUp lists the zone, begun now.
func (s *Sender) lookUp(ctx context.Context) (host.OrderInput, cloud.Server, error) {
	zone, name := s.Host().Spec.Zone, s.Host().Spec.Order.Name
	in := host.OrderInput{Began: s.Clock.Now(), Ended: s.ended()}
	in.AttemptSeen = s.Memory.noteAttempt(s.Host(), in.Began)
	servers, err := s.Cloud.ListServers(ctx, zone)
	if err != nil {
		return in, cloud.Server{}, err
	}
	report, _ := s.Zones.Zone(zone)
	in.Believed = !report.Suspicious && (len(servers) > 0 || s.Cloud.CheckAccess(ctx, zone) == nil)
	in.Empty = len(servers) == 0
	servers = slices.DeleteFunc(servers, func(server cloud.Server) bool { return server.Name != name })
	server, free, err := s.freeOf(ctx, servers)
	if err != nil {
		return in, cloud.Server{}, err
	}
	// What somebody has is not what became of an order that nobody wants any more.
	in.Found = free || (len(servers) > 0 && !(in.Ended && s.Host().Spec.Order.AttemptedAt != nil))
	in.LackingSince = s.Memory.lacking(s.Host(), in)
	return in, server, nil
}

// freeOf is the first of the servers of an order's name that is free to take, or just
// the first. There are several when a Machine lost its hostRef and ordered again: what
// the order became is the one that is nobody's.
func (s *Sender) freeOf(ctx context.Context, servers []cloud.Server) (server cloud.Server, free bool, err error) {
	for _, server := range servers {
		h := &host.Host{}
		err := s.Reader.Get(ctx, client.ObjectKey{Name: host.ObjectName(s.Host().Spec.Zone, server.ID)}, h)
		if client.IgnoreNotFound(err) != nil {
			return cloud.Server{}, false, fmt.Errorf("reading the host of a server that was ordered: %w", err)
		}
		if err != nil {
			return server, true, nil
		}
		if _, taken := host.Deliver(h, s.Host(), s.Clock.Now()); taken == nil {
			return server, true, nil
		}
	}
	if len(servers) == 0 {
		return cloud.Server{}, false, nil
	}
	return servers[0], false, nil
}

// send records the attempt and then asks for the server.
func (s *Sender) send(ctx context.Context) (ctrl.Result, error) {
	if paused, err := s.paused(ctx); paused || err != nil {
		return ctrl.Result{RequeueAfter: s.Interval}, err
	}
	image, refused, err := s.check(ctx)
	if err != nil {
		return s.Refused(ctx, err)
	}
	if refused != "" {
		return s.refuse(ctx, infrav1.ReasonOrderRejected, refused), nil
	}
	earlier, at := s.Host().Spec.Order.AttemptedAt, metav1.NewMicroTime(s.Clock.Now().Truncate(time.Microsecond))
	if err := s.Update(ctx, func(h *host.Host) { h.Spec.Order.AttemptedAt = &at }); err != nil {
		return ctrl.Result{}, err
	}
	s.Memory.noteAttempt(s.Host(), s.Clock.Now())
	s.Report(metav1.ConditionFalse, infrav1.ReasonOrdering, "the server is being ordered")
	if now, err := s.Confirm(ctx); err != nil || now == nil || !now.Spec.Order.AttemptedAt.Equal(&at) || s.Clock.Since(at.Time) > host.OrderPrompt {
		return ctrl.Result{RequeueAfter: s.Poll}, err
	}
	return s.ask(ctx, image, earlier)
}

// ask sends the order. A refusal rests; an answer that was lost is looked for, as that of
// an earlier attempt is still.
func (s *Sender) ask(ctx context.Context, image string, earlier *metav1.MicroTime) (ctrl.Result, error) {
	order := s.Host().Spec.Order
	call, cancel := context.WithTimeout(ctx, host.OrderDeadline)
	defer cancel()
	id, err := s.Cloud.CreateServer(call, s.Host().Spec.Zone, cloud.ServerOrder{Name: order.Name, Type: order.Type, OSID: image})
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("Ordered a server", "server", order.Name, "id", id, "type", order.Type)
		return s.deliver(ctx, id)
	}
	if reason := host.OrderRefusal(err); reason != "" {
		// Nothing came of it: a server of this name that shows later is somebody else's, or
		// what an earlier attempt without an answer became.
		if err := s.Update(ctx, func(h *host.Host) { h.Spec.Order.AttemptedAt = earlier }); err != nil {
			return ctrl.Result{}, err
		}
		s.Memory.noteAttempt(s.Host(), s.Clock.Now())
		return s.refuse(ctx, reason, orderMessage(order, err)), nil
	}
	s.Report(metav1.ConditionFalse, infrav1.ReasonOrdering, host.Refused(cloud.Said(err)))
	ctrl.LoggerFrom(ctx).Info("An order did not come back; looking for its server", "error", err.Error())
	return ctrl.Result{RequeueAfter: s.Poll}, nil
}

func orderMessage(order *infrav1.OrderRequest, err error) string {
	message := fmt.Sprintf("type %q in zone %s", order.Type, order.Zone)
	if order.OS != "" {
		message += fmt.Sprintf(" with os %q", order.OS)
	}
	return message + ": " + host.Refused(cloud.Said(err))
}

// refuse says why there is no server, and has the order wait.
func (s *Sender) refuse(ctx context.Context, reason, message string) ctrl.Result {
	s.Report(metav1.ConditionFalse, reason, message)
	s.Memory.Change(s.Host().UID, func(m *remembered) { m.backOffUntil = s.Clock.Now().Add(host.OrderBackOff) })
	ctrl.LoggerFrom(ctx).Info("The order is refused", "reason", reason, "why", message)
	return ctrl.Result{RequeueAfter: host.OrderBackOff}
}

// backOff is how long a refused order is not sent again still. One that is no longer
// wanted, or whose server the inventory saw, does not rest.
func (s *Sender) backOff() time.Duration {
	order := s.Host().Spec.Order
	if s.ended() || (order.AttemptedAt != nil && s.Zones.Bears(s.Host().Spec.Zone, order.Name)) {
		return 0
	}
	return s.Memory.Get(s.Host().UID).backOffUntil.Sub(s.Clock.Now())
}

// check finds the image to install, or what is wrong with the order.
func (s *Sender) check(ctx context.Context) (image, wrong string, err error) {
	order := s.Host().Spec.Order
	kinds, err := s.Cloud.ServerTypes(ctx, s.Host().Spec.Zone)
	if err != nil {
		return "", "", err
	}
	if wrong := host.UnknownType(s.Host().Spec.Zone, order.Type, kinds); wrong != "" {
		return "", wrong, nil
	}
	if order.OS == "" {
		return "", "", nil
	}
	found, err := s.Cloud.FindOS(ctx, s.Host().Spec.Zone, order.OS, order.Type)
	if cloud.IsNotFound(err) {
		return "", fmt.Sprintf("os %q for type %s: %s", order.OS, order.Type, strings.TrimSpace(cloud.Said(err))), nil
	}
	return found.ID, "", err
}

// paused: a paused Machine or Cluster orders nothing.
func (s *Sender) paused(ctx context.Context) (bool, error) {
	claim := s.Host().Spec.ClaimRef
	if annotations.HasPaused(s.owner) || claim.Cluster == "" {
		return annotations.HasPaused(s.owner), nil
	}
	state, err := clusterstate.Get(ctx, s.Reader, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Cluster})
	return err != nil || state.Missing || state.Paused, err
}

// Memory is what is remembered of each order between its reconciles.
type Memory struct {
	memo.Memo[types.UID, remembered]
}

type remembered struct {
	// backOffUntil: a refused order is not sent again before.
	backOffUntil time.Time
	lackingSince time.Time
	// attempt is the last one seen on record, attemptSeen when, by this manager's clock.
	attempt, attemptSeen time.Time
}

// noteAttempt returns when this manager first saw the attempt that is on record; zero
// while nothing was asked for. What lists lacked before it tells nothing of it.
func (o *Memory) noteAttempt(h *host.Host, now time.Time) time.Time {
	var attempt, seen time.Time
	if at := h.Spec.Order.AttemptedAt; at != nil {
		attempt, seen = at.Time, now
	}
	return o.Change(h.UID, func(m *remembered) {
		if !attempt.Equal(m.attempt) {
			m.attempt, m.attemptSeen, m.lackingSince = attempt, seen, time.Time{}
		}
	}).attemptSeen
}

// lacking is since when lists that are believed, and had to show the attempt, have
// lacked the order's server.
func (o *Memory) lacking(h *host.Host, in host.OrderInput) time.Time {
	return o.Change(h.UID, func(m *remembered) {
		switch {
		case in.Found:
			m.lackingSince = time.Time{}
		case in.Believed && in.Settled(h) && m.lackingSince.IsZero():
			m.lackingSince = in.Began
		}
	}).lackingSince
}
