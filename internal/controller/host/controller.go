// Package host keeps Hosts in step with the vendor's servers. One inventory reads
// each zone and makes the objects; one reconciler, with one work-queue key a
// host, shows claims to the vendor, stages credentials for their owners, and
// wipes what was released. It asks package host what to do, and it alone talks
// to the vendor about a server. Choosing and claiming hosts, and recording their
// release, is left to the Machine's controller.
package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconhosts,verbs=get;list;watch;create;update;delete;claim
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconhosts/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachines;scalewayapplesiliconclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// conflictDelay lets the other writer's change arrive before the next try.
const conflictDelay = 200 * time.Millisecond

// Reconciler works on one host at a time.
type Reconciler struct {
	Options
	// Client writes, and reads from the cache what decides nothing destructive.
	Client client.Client
	// Reader reads uncached.
	Reader client.Reader
	// Inventory holds the newest reading of each server.
	Inventory *Inventory
	Recorder  events.EventRecorder
	metrics   *metrics
	asked     asked // for reinstalls
	returned  asked // to the vendor
	kinds     kinds
	orders    orders
	diagnoses diagnoses
	known     firstSeen
	// unseen is held while a host that was never seen wiped is judged.
	unseen sync.Mutex
}

// pass is one look at one host, and what it found on the way.
type pass struct {
	*Reconciler
	host   *host.Host
	stored infrav1.ScalewayAppleSiliconHostStatus // as the API has it
	seen   host.Seen
	owner  *infrav1.ScalewayAppleSiliconMachine
	ended  bool // the object is deleted
	// began is when the last reading of this pass was asked for.
	began time.Time
}

// Reconcile observes the host, does the next thing, and records once.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	h := &host.Host{}
	if err := r.Reader.Get(ctx, request.NamespacedName, h); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	p := &pass{Reconciler: r, host: h, stored: *h.Status.DeepCopy()}
	p.seen.Now, p.seen.RefuseUnseen = r.Clock.Now(), r.RefuseUnseen
	p.known.note(h, p.seen.Now)
	p.observe()
	result, err := p.act(ctx)
	if err == nil && !p.ended && p.host.Spec.Reboot != nil {
		result, err = p.reboot(ctx, result)
	}
	if err == nil && p.seen.Gone {
		err = p.retire(ctx)
	}
	if err == nil {
		var again time.Duration
		again, err = p.label(ctx)
		result.RequeueAfter = earlier(result.RequeueAfter, again)
	}
	err = errors.Join(err, p.record(ctx))
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

// act does the one thing that the host's spec asks for. What nobody has is idle.
func (p *pass) act(ctx context.Context) (ctrl.Result, error) {
	p.forgetNode(ctx)
	if err := p.dropLateAdoption(ctx); err != nil {
		return ctrl.Result{}, err
	}
	switch h := p.host; {
	case h.Spec.Order != nil:
		return p.order(ctx)
	case p.seen.Gone:
		return ctrl.Result{}, p.findOwner(ctx)
	case h.Spec.Release != nil:
		return p.wipe(ctx)
	case h.Spec.Record.HandedOverAt != nil:
		return p.handedOver(ctx)
	case h.Spec.ClaimRef != nil:
		return p.show(ctx)
	}
	return p.idle(ctx)
}

// observe takes over what the inventory saw since this object was written.
func (p *pass) observe() {
	seen, known := p.Inventory.readings.look(p.host.Spec.Zone, p.host.Spec.ServerID)
	if !known {
		return
	}
	p.seen.Gone = seen.gone
	if seen.missingSince.IsZero() {
		p.host.Status.MissingSince = nil
		p.host.Status.Server = serverStatus(seen.server)
		return
	}
	since := metav1.NewMicroTime(seen.missingSince.Truncate(time.Microsecond))
	p.host.Status.MissingSince = &since
}

// read asks the vendor for the server as it is now.
func (p *pass) read(ctx context.Context) (cloud.Server, cloud.Credentials, error) {
	p.began = p.Clock.Now()
	p.known.note(p.host, p.began) // the reading is newer than what is known before it
	server, credentials, err := p.Cloud.GetServer(ctx, p.host.Spec.Zone, p.host.Spec.ServerID)
	if err == nil {
		p.Inventory.readings.put(server, p.began)
		p.host.Status.MissingSince = nil
		p.host.Status.Server = serverStatus(server)
	}
	return server, credentials, err
}

// vendor turns a vendor error into what the work queue should do: refusals that
// pass by themselves are polled, and everything else backs off. No single answer
// proves that a server is gone: it hastens the next list, and the lists decide.
func (p *pass) vendor(ctx context.Context, err error) (ctrl.Result, error) {
	p.seen.Refusal = refusal(err)
	switch {
	case cloud.IsNotFound(err):
		ctrl.LoggerFrom(ctx).Info("The vendor says that it has no such server; the next lists decide", "error", err.Error())
		p.Inventory.hasten()
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, nil
	case cloud.IsTransient(err), cloud.IsLocked(err), cloud.IsThrottled(err):
		ctrl.LoggerFrom(ctx).V(1).Info("The vendor refused for now", "error", err.Error())
		return ctrl.Result{RequeueAfter: p.poll()}, nil
	}
	return ctrl.Result{}, err
}

// refusal is a vendor error without the id of its request, which would make each
// look a change.
func refusal(err error) string {
	if refused, ok := errors.AsType[*cloud.Error](err); ok {
		return refused.Doing + ": " + refused.Message
	}
	return err.Error()
}

// update writes the spec under the resourceVersion that was read, so that a
// write in between fails it. The status in memory outlives the answer.
func (p *pass) update(ctx context.Context, change func(*host.Host)) error {
	changed := p.host.DeepCopy()
	change(changed)
	if err := p.Client.Update(ctx, changed); err != nil {
		return fmt.Errorf("updating host %s: %w", p.host.Name, err)
	}
	changed.Status = p.host.Status
	p.host = changed
	return nil
}

// record derives phase and conditions, and writes the status if it changed.
func (p *pass) record(ctx context.Context) error {
	if p.ended {
		return nil
	}
	h := p.host
	now := metav1.NewTime(p.Clock.Now())
	was, failed := p.stored.Phase, wipedReason(p.stored) == infrav1.ReasonReinstallFailed
	rejected := wipedReason(p.stored) == infrav1.ReasonWipeRejected
	h.Status.Phase = host.Phase(h, p.seen)
	meta.RemoveStatusCondition(&h.Status.Conditions, goneWith(h))
	for _, c := range host.Conditions(h, p.seen) {
		c.LastTransitionTime = now
		meta.SetStatusCondition(&h.Status.Conditions, c)
	}
	if equality.Semantic.DeepEqual(p.stored, h.Status) {
		return nil
	}
	base := h.DeepCopy()
	base.Status = p.stored
	written := h.DeepCopy()
	if err := p.Client.Status().Patch(ctx, written, client.MergeFrom(base)); err != nil {
		return client.IgnoreNotFound(err)
	}
	// The answer is the whole object as it is now: its version must not be used
	// with a spec that was read before.
	p.host, p.stored = written, *written.Status.DeepCopy()
	if was != written.Status.Phase {
		p.announce(ctx, was)
	}
	if !failed && wipedReason(written.Status) == infrav1.ReasonReinstallFailed {
		p.event(corev1.EventTypeWarning, infrav1.ReasonReinstallFailed, "the vendor shows the server in error after its reinstall was asked for")
		ctrl.LoggerFrom(ctx).Info("The reinstall failed", "server", written.Status.Server.Name)
	}
	if !rejected && wipedReason(written.Status) == infrav1.ReasonWipeRejected {
		p.event(corev1.EventTypeWarning, infrav1.ReasonWipeRejected, host.Refused(p.seen.Refusal))
	}
	return nil
}

// goneWith names the condition that a host has only while it is given back.
func goneWith(h *host.Host) string {
	if h.Spec.Release != nil && h.Spec.Release.Policy == infrav1.Terminate {
		return ""
	}
	return host.RetiredCondition
}

func wipedReason(status infrav1.ScalewayAppleSiliconHostStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, infrav1.WipedCondition); c != nil {
		return c.Reason
	}
	return ""
}

// announce tells of a change of phase, once.
func (p *pass) announce(ctx context.Context, was infrav1.HostPhase) {
	h := p.host
	ctrl.LoggerFrom(ctx).Info("Host changed phase", "from", was, "to", h.Status.Phase, "server", h.Status.Server.Name)
	switch h.Status.Phase {
	case infrav1.HostStranded:
		p.event(corev1.EventTypeWarning, "StrandedHost", "no Machine holds the claim of this host; it is left alone")
	case infrav1.HostRetiring:
		p.event(corev1.EventTypeNormal, infrav1.ReasonRetiring, availableMessage(h))
	case infrav1.HostQuarantined:
		p.event(corev1.EventTypeWarning, infrav1.ReasonQuarantined, availableMessage(h))
	case infrav1.HostHandedOver:
		p.event(corev1.EventTypeNormal, infrav1.ReasonHandedOver, "the host is another management cluster's; nothing is done to it here")
	case infrav1.HostGone:
		p.event(corev1.EventTypeWarning, "Gone", "the vendor no longer has this server")
	}
}

func availableMessage(h *host.Host) string {
	if c := meta.FindStatusCondition(h.Status.Conditions, infrav1.AvailableCondition); c != nil {
		return c.Message
	}
	return ""
}

func (p *pass) event(kind, reason, note string) {
	p.Recorder.Eventf(p.host, nil, kind, reason, "Reconcile", "%s", note)
}

// condition sets one of the conditions that acts report.
func (p *pass) condition(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&p.host.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(p.Clock.Now()),
	})
}

// unshow forgets what was shown of a claim that ended.
func (p *pass) unshow() {
	p.host.Status.ShownSince = nil
	meta.RemoveStatusCondition(&p.host.Status.Conditions, infrav1.NameInSyncCondition)
	meta.RemoveStatusCondition(&p.host.Status.Conditions, host.CredentialsStagedCondition)
}

func serverStatus(s cloud.Server) infrav1.ServerStatus {
	out := infrav1.ServerStatus{
		Name: s.Name, Status: string(s.Status), Type: s.Type, Delivered: s.Delivered, OS: s.OSName, OSFamily: s.OSFamily,
		IP: s.IP, SSHUser: s.SSHUser, DeletionScheduled: s.DeletionScheduled, Commitment: s.Commitment,
	}
	if !s.DeletableAt.IsZero() {
		at := metav1.NewTime(s.DeletableAt.Truncate(time.Second)) // the API keeps no less
		out.DeletableAt = &at
	}
	return out
}
