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
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/clusterstate"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/memo"
	"github.com/macfleet/macfleet/internal/order"
	"github.com/macfleet/macfleet/internal/requeue"
	"github.com/macfleet/macfleet/internal/servertype"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconhosts,verbs=get;list;watch;create;update;delete;claim
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconhosts/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachines;scalewayapplesiliconclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

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
	// What is remembered of hosts between their reconciles.
	reinstalls, deletions requests
	orders                order.Memory
	diagnostics           memo.Memo[types.UID, diagnostic]
	serverTypes           servertype.Types
	firstSeen             firstSeen
	statuses              statuses
	stored                storedServers
	// unseen is held while a host that was never seen wiped is judged.
	unseen sync.Mutex
}

// Reconcile reads the host, runs what its spec asks for, and writes the status once.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	h := &host.Host{}
	if err := r.Reader.Get(ctx, request.NamespacedName, h); err != nil {
		if apierrors.IsNotFound(err) {
			r.firstSeen.Forget(request.Name)
			r.statuses.Forget(request.Name)
			r.stored.Forget(request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.obeys(h) {
		return reconcile.Result{}, nil
	}
	if others, err := r.anotherManagers(ctx, h); others || err != nil {
		return reconcile.Result{}, err
	}
	p := r.newPhases(h)
	p.observe()
	result, err := p.run(ctx)
	if err = errors.Join(err, p.patchStatus(ctx)); err != nil {
		result = reconcile.Result{}
	}
	return requeue.OnConflict(result, err)
}

// anotherManagers: the host is claimed from a namespace that is not this manager's, and the
// claim's Cluster is there. The manager there shows the claim, sends the order and wipes the disk:
// two that do would each be right, and ask the vendor twice. Where that Cluster is gone, the
// manager may be, too, and whoever is left goes on. A Cluster that goes may wait for ever for a
// manager that is gone: what is released is wiped all the same.
func (r *Reconciler) anotherManagers(ctx context.Context, h *host.Host) (bool, error) {
	if !host.ClaimedOutside(h, r.Namespace) {
		return false, nil
	}
	claim := h.Spec.ClaimRef
	state, err := clusterstate.Get(ctx, r.Reader, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Cluster})
	unattended := state.Missing || state.Deleting && h.Spec.Release != nil
	return err == nil && !unattended, err
}

// phases are what a Reconcile may run, each with the services that it needs.
type phases struct {
	*vendor
	nodes    nodeDeletion
	idle     idling
	show     showing
	wipe     wiping
	reboot   rebooting
	labels   labelling
	ordering order.Sender
}

func (r *Reconciler) newPhases(h *host.Host) *phases {
	s := &scope{
		Client: r.Client, Reader: r.Reader, recorder: r.Recorder, clock: r.Clock, statuses: &r.statuses, known: &r.stored, namespace: r.Namespace, host: h, stored: *h.Status.DeepCopy(),
	}
	s.observed.Now, s.observed.RefuseUnseen, s.observed.PoolPrefixes = s.now(), r.RefuseUnseen, r.pools().Known(nil)
	v := &vendor{scope: s, Options: &r.Options, Cloud: announcing{r.Cloud, s}, inventory: r.Inventory, firstSeen: &r.firstSeen}
	idle := idling{vendor: v, adoption: adoption{v}, judging: &r.unseen}
	return &phases{
		vendor: v,
		nodes:  nodeDeletion{s, r.NodeReader, r.NodeWriter},
		idle:   idle,
		show:   showing{v, staging{s}},
		wipe:   wiping{vendor: v, idle: idle, metrics: r.metrics, reinstalls: &r.reinstalls, deletions: &r.deletions},
		reboot: rebooting{v, diagnosing{v, &r.diagnostics}, r.metrics},
		labels: labelling{v, &r.serverTypes},
		ordering: order.Sender{
			Object: orderObject{v}, Client: r.Client, Reader: r.Reader, Clock: r.Clock, Cloud: v.Cloud, Zones: r.Inventory, Memory: &r.orders,
			Poll: r.poll(), Interval: r.InventoryInterval, ConflictDelay: requeue.Delay, WatchFilter: r.WatchFilter,
		},
	}
}

// run does the one thing that the host's spec asks for, and then what goes beside it.
func (p *phases) run(ctx context.Context) (ctrl.Result, error) {
	result, err := p.main(ctx)
	if err == nil && !p.deleted {
		result, err = p.reboot.reconcile(ctx, result)
	}
	if err == nil && p.observed.Gone {
		err = p.wipe.removeGone(ctx)
	}
	if err != nil {
		return result, err
	}
	again, err := p.labels.reconcile(ctx)
	result.RequeueAfter = earlier(earlier(result.RequeueAfter, again), p.untilQuarantineEnds())
	return result, err
}

// main is the phase that the host is in. A host that nobody has is idle.
func (p *phases) main(ctx context.Context) (ctrl.Result, error) {
	if err := p.disproveGone(ctx); err != nil {
		return p.Refused(ctx, err)
	}
	p.nodes.reconcile(ctx)
	if err := p.idle.adoption.dropLate(ctx); err != nil {
		return ctrl.Result{}, err
	}
	switch h := p.host; {
	case h.Spec.Order != nil:
		return p.ordering.Reconcile(ctx)
	case p.observed.Gone:
		return ctrl.Result{}, p.findOwner(ctx)
	case h.Spec.Release != nil:
		return p.wipe.reconcile(ctx)
	case h.Spec.Record.HandedOverAt != nil:
		return p.show.moved(ctx)
	case h.Spec.ClaimRef != nil:
		return p.show.reconcile(ctx)
	}
	return p.idle.reconcile(ctx)
}

// disproveGone asks for the server itself before the lists that lacked it are believed:
// what shows it ends Pods at once, or deletes the Host with all that it remembers. A call
// that fails otherwise than one for a deleted server does says nothing of it, and is its error.
func (v *vendor) disproveGone(ctx context.Context) error {
	if !v.observed.Gone {
		return nil
	}
	_, _, err := v.read(ctx)
	if cloud.IsNotFound(err) || cloud.IsForbidden(err) {
		return nil
	}
	v.observed.Gone = false
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("The lists lacked a server that is there")
	}
	return err
}

// untilQuarantineEnds is when the quarantine that was in force is over, and the
// condition with it; zero: it has no end.
func (p *phases) untilQuarantineEnds() time.Duration {
	if q := p.host.Spec.Quarantine; q != nil && q.Until != nil && host.Quarantined(p.host, p.observed.Now) {
		return max(q.Until.Sub(p.now()), time.Millisecond)
	}
	return 0
}

// earlier of two waits; zero is none.
func earlier(a, b time.Duration) time.Duration {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
