// Package machine turns infra machines into Macs that are Nodes, and lets them
// go again. A visit to a Machine is a short list of phases: claim a host, bring
// the Mac to its desired state, watch its Node; or, when the Machine is deleted,
// release the host. What a host is and which one to take is decided in package
// host; everything the vendor is asked about a server, credentials included, is
// left to the host controller; whose turn it is to be changed, to the profile
// controller.
package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

// Options of the controller. Client, Reader, Keys, Macs and Recorder must be
// set; zero values of the others work.
type Options struct {
	Client client.Client
	// Reader reads uncached.
	Reader client.Reader
	// Keys registers SSH keys with the vendor.
	Keys KeyRegistrar
	// ClusterID identifies the management cluster in the names of these keys.
	ClusterID string
	// Macs dials Macs.
	Macs Dialer
	// Agent is the build that Macs are given.
	Agent Agent
	// Discovery finds the API server's address for Macs.
	Discovery workload.Discovery
	// Zone returns how the last list of a zone went, and whether one has ended. Nil:
	// no server is ever proved gone, and a Machine whose Host is lost waits for it.
	Zone func(zone string) (host.ZoneReport, bool)
	// Lacks reports that this manager's own last list of a zone lacked a server. Nil: as
	// with Zone.
	Lacks func(zone, serverID string) bool
	// DefaultPoolPrefix is used by Machines that name none. Empty: they must.
	DefaultPoolPrefix string
	// NamespacePools are the prefixes that the Machines of a namespace may name
	// beside the default.
	NamespacePools map[string][]string
	// RefuseUnseen: no Machine takes a host that was never seen wiped.
	RefuseUnseen bool
	// SSHPort of the Macs. Default: 22.
	SSHPort int
	// Concurrency of reconciles. Default: 32.
	Concurrency int
	// ConvergeConcurrency is how many Macs are pushed to at once. Default: 20.
	ConvergeConcurrency int
	// RebootAfter is the number of failed bootstrap attempts after which a Mac is
	// rebooted, once a claim. 0: never.
	RebootAfter int
	// MaxAttempts is the number of failed bootstrap attempts after which a Machine
	// gives its host back and takes another. 0: never.
	MaxAttempts int
	// RecoverAfter is the least time from the first of these failures until either
	// happens. 0: none.
	RecoverAfter time.Duration
	// DriftCheckInterval is how often a Mac is looked at for what changed behind our
	// back. 0: never.
	DriftCheckInterval time.Duration
	// Pause waits between two looks at a Mac that reboots. Default: in real time.
	Pause func(ctx context.Context, d time.Duration) error
	// WatchFilter is the value of the watch-filter label to obey. Empty: all.
	WatchFilter string
	// Recorder of events.
	Recorder events.EventRecorder
	// Metrics takes the metrics. Nil: none are shown.
	Metrics prometheus.Registerer
	// Spawn runs a job on a Mac beside its caller. Default: a goroutine. For tests
	// that decide themselves when jobs run.
	Spawn func(job func())
	// Clock for tests. Default: the real one.
	Clock clock.PassiveClock
}

// Reconciler of infra machines.
type Reconciler struct {
	Options

	metrics    *metrics
	registered registered
	absences   absences
	spoken     spoken
	pushes     *jobs
	// checks share the slots of the pushes.
	checks *jobs
	leaves *jobs
	// storm is held while a recovery counts what others destroy and adds itself.
	storm sync.Mutex
	// ordering is held while a Machine counts what its profile ordered and adds its order.
	ordering sync.Mutex
}

// New returns a reconciler with the defaults filled in.
func New(o Options) *Reconciler {
	if o.SSHPort == 0 {
		o.SSHPort = 22
	}
	if o.Concurrency == 0 {
		o.Concurrency = 32
	}
	if o.ConvergeConcurrency == 0 {
		o.ConvergeConcurrency = 20
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Discovery.Reader == nil {
		o.Discovery.Reader = o.Reader
	}
	if o.Pause == nil {
		o.Pause = pause
	}
	r := &Reconciler{
		Options: o, metrics: newMetrics(),
		pushes: newJobs(o.ConvergeConcurrency, o.Clock, o.Spawn), leaves: newJobs(o.ConvergeConcurrency, o.Clock, o.Spawn),
		checks: newJobs(o.ConvergeConcurrency, o.Clock, o.Spawn),
	}
	r.checks.slots = r.pushes.slots
	return r
}

// Wakeups are the Machines whose jobs have news, for whoever runs the reconciler
// without SetupWithManager.
func (r *Reconciler) Wakeups() []<-chan event.GenericEvent {
	return []<-chan event.GenericEvent{r.pushes.wakeups, r.leaves.wakeups, r.checks.wakeups}
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachines/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconhosts,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconclusters;macnodeprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,namespace=fleet,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=fleet,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=secrets,namespace=fleet,verbs=get;create;update;patch
// +kubebuilder:rbac:groups="",resources=secrets,namespace=kube-system,verbs=create;delete
// +kubebuilder:rbac:groups="",resources=configmaps,namespace=kube-public,resourceNames=cluster-info,verbs=get

// Reconcile looks at one Machine. It never blocks on a Mac: that work is a job.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := &infrav1.ScalewayAppleSiliconMachine{}
	err := r.Client.Get(ctx, req.NamespacedName, m)
	if apierrors.IsNotFound(err) {
		r.pushes.forget(req.NamespacedName)
		r.checks.cancel(req.NamespacedName)
		r.checks.forget(req.NamespacedName)
		r.leaves.forget(req.NamespacedName)
		r.absences.forget(req.NamespacedName)
		r.spoken.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the Machine: %w", err)
	}
	if r.WatchFilter != "" && !labels.HasWatchLabel(m, r.WatchFilter) {
		return ctrl.Result{}, nil
	}
	if err := r.cleanConditions(ctx, m); err != nil {
		return quietly(ctrl.Result{}, err)
	}
	v, err := r.look(ctx, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	if moving(m) {
		return quietly(ctrl.Result{}, r.handOver(ctx, v))
	}
	if m.DeletionTimestamp.IsZero() {
		if stop, err := r.enter(ctx, v); stop || err != nil {
			return quietly(ctrl.Result{}, err)
		}
	}
	result, err := r.walk(ctx, v)
	if !v.silent {
		err = errors.Join(err, r.show(ctx, v))
	}
	return quietly(result, err)
}

// show records the status, and notes that a failure is told.
func (r *Reconciler) show(ctx context.Context, v *visit) error {
	if err := r.record(ctx, v); err != nil {
		return err
	}
	r.finish(v)
	if v.failure != nil {
		r.pushes.setShown(client.ObjectKeyFromObject(v.machine))
	}
	return nil
}

// enter holds paused Machines back, and puts the finalizer on before anything is
// done outside. Stop: the write that was made brings the Machine back.
func (r *Reconciler) enter(ctx context.Context, v *visit) (stop bool, err error) {
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, v.cluster, v.machine)
	if err != nil || isPaused || requeue {
		return true, err
	}
	if controllerutil.ContainsFinalizer(v.machine, infrav1.MachineFinalizer) {
		return false, nil
	}
	return true, r.patch(ctx, v, "finalizer", func(m *infrav1.ScalewayAppleSiliconMachine) {
		controllerutil.AddFinalizer(m, infrav1.MachineFinalizer)
	})
}

// walk runs the phases. Each looks for itself whether it has something to do.
func (r *Reconciler) walk(ctx context.Context, v *visit) (ctrl.Result, error) {
	if !v.machine.DeletionTimestamp.IsZero() {
		return r.release(ctx, v)
	}
	var result ctrl.Result
	for _, phase := range []func(context.Context, *visit) (ctrl.Result, error){r.claim, r.bootstrap, r.join, r.mendSlots} {
		next, err := phase(ctx, v)
		if err != nil {
			return ctrl.Result{}, err
		}
		result = util.LowestNonZeroResult(result, next)
	}
	return result, nil
}

// conflictDelay is how long a stale read is given to become a fresh one.
const conflictDelay = 250 * time.Millisecond

// quietly makes a lost race against a newer version of an object an ordinary
// second look instead of an error.
func quietly(result ctrl.Result, err error) (ctrl.Result, error) {
	if err != nil && onlyConflict(err) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	return result, err
}

// onlyConflict looks through wrapped and joined errors for anything else.
func onlyConflict(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			if !onlyConflict(one) {
				return false
			}
		}
		return true
	}
	return apierrors.IsConflict(err) || errors.Is(err, errStale)
}
