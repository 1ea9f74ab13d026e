// Package profile keeps Macs that run in step with their MacNodeProfile: it gives
// them their turns to be changed, keeps the labels and taints of their Nodes, and
// says how far a change has come. Who is next is decided in package rollout;
// pushing to a Mac that has an update permit, and finding what was changed there, is the
// machine controller's.
package profile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/requeue"
	"github.com/macfleet/macfleet/internal/rollout"
)

// Options of the controller. Client, Reader and Recorder must be set, and
// ClientCAChanged and Metrics for SetupWithManager; zero values of the others work.
type Options struct {
	Client client.Client
	// Reader reads uncached.
	Reader client.Reader
	// Agent is the build that Macs are given.
	Agent document.Agent
	// ClientCA are the authorities of the API server's clients, as Macs are given them.
	// Nil: they are given none.
	ClientCA func(context.Context) ([]byte, error)
	// ClientCAChanged wakes all profiles.
	ClientCAChanged <-chan event.GenericEvent
	// WatchFilter is the value of the watch-filter label to obey. Empty: all.
	WatchFilter string
	// Recorder of events.
	Recorder events.EventRecorder
	// Metrics takes the metrics.
	Metrics prometheus.Registerer
	// Clock for tests. Default: the real one.
	Clock clock.PassiveClock
}

// Reconciler of profiles. A request without a name stands for the Machines of a
// namespace that name no profile: they follow the built-in one, of which there is
// no object.
type Reconciler struct {
	Options

	metrics *metrics
	proofs  proofs
	pace    pace
	losses  losses
}

// New returns a reconciler with the defaults filled in.
func New(o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.ClientCA == nil {
		o.ClientCA = func(context.Context) ([]byte, error) { return nil, nil }
	}
	return &Reconciler{Options: o, metrics: newMetrics()}
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=macnodeprofiles;scalewayapplesiliconmachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=macnodeprofiles/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines;machinedeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// unkeptDelay is when a Node that could not be kept is tried again.
const unkeptDelay = 15 * time.Second

// Reconcile looks at one profile and all its Machines.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	profile, err := r.read(ctx, req)
	if apierrors.IsNotFound(err) {
		r.metrics.forget(req.NamespacedName)
		r.proofs.Forget(req.NamespacedName)
		r.pace.Forget(req.NamespacedName)
		r.losses.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil || !profile.DeletionTimestamp.IsZero() || r.anothers(profile) {
		return ctrl.Result{}, err
	}
	began := r.Clock.Now()
	if wait := r.pace.wait(req.NamespacedName, began); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	result, err := r.follow(ctx, req, profile)
	if err == nil { // else the pauses between grow
		r.pace.took(req.NamespacedName, began, r.Clock.Now())
	}
	return requeue.OnConflict(result, err)
}

// anothers: another instance looks after the profile. The built-in one is no object, and each
// instance has it for its own Machines.
func (r *Reconciler) anothers(profile *infrav1.MacNodeProfile) bool {
	return profile.Name != "" && !host.Obeys(profile, r.WatchFilter)
}

func (r *Reconciler) read(ctx context.Context, req ctrl.Request) (*infrav1.MacNodeProfile, error) {
	profile := &infrav1.MacNodeProfile{}
	if req.Name == "" {
		profile.Namespace = req.Namespace
		return profile, nil
	}
	if err := r.Client.Get(ctx, req.NamespacedName, profile); err != nil {
		return nil, fmt.Errorf("reading MacNodeProfile %s: %w", req.Name, err)
	}
	return profile, nil
}

// follow brings the turns, the Nodes and the status up to date.
func (r *Reconciler) follow(ctx context.Context, req ctrl.Request, profile *infrav1.MacNodeProfile) (ctrl.Result, error) {
	s, err := r.survey(ctx, profile, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	var decision rollout.Decision
	if s.invalid == nil {
		decision = rollout.Plan(s.input(profile, r.Clock.Now()))
		if len(decision.Begin)+len(decision.End) > 0 {
			if s, decision, err = r.updatePermits(ctx, profile); err != nil {
				return ctrl.Result{}, err
			}
		}
		s.upkeep = r.keepNodes(ctx, profile, s)
	}
	r.metrics.show(req.NamespacedName, s, decision)
	if req.Name != "" {
		if err := r.record(ctx, profile, s, decision); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: r.again(s, decision)}, nil
}

// again is when to look again for what no watch tells; zero: not at all. It is not
// left to the pauses that grow after an error: an update permit would end late.
func (r *Reconciler) again(s survey, decision rollout.Decision) time.Duration {
	var pauses []time.Duration
	nodes := s.upkeep
	for i := range s.macs {
		if seen := s.macs[i].loss; seen.over { // no watch tells of Pods
			pauses = append(pauses, max(time.Second, seen.at.Add(lossesKnown).Sub(r.Clock.Now())))
		}
	}
	if !decision.Again.IsZero() {
		pauses = append(pauses, max(time.Second, decision.Again.Sub(r.Clock.Now())))
	}
	if len(nodes.errs) > 0 {
		pauses = append(pauses, unkeptDelay)
	}
	if nodes.stale {
		pauses = append(pauses, requeue.Delay)
	}
	if len(pauses) == 0 {
		return 0
	}
	return slices.Min(pauses)
}
