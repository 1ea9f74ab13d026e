// Package machine turns infra machines into Macs that are Nodes, and lets them
// go again. A visit to a Machine is a short list of phases: claim a host, bring
// the Mac to its desired state, watch its Node; or, when the Machine is deleted,
// release the host. What a host is and which one to take is decided in package
// host; everything the vendor is asked about a server, credentials included, is
// left to the host controller; who gets the update permit, to the profile
// controller.
package machine

import (
	"cmp"
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
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/fleetsecret"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/memo"
	"github.com/macfleet/macfleet/internal/order"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/internal/requeue"
	"github.com/macfleet/macfleet/internal/tracing"
	"github.com/macfleet/macfleet/internal/workload"
)

// Options of the controller. Client, Reader, Keys, Macs and Recorder must be
// set; zero values of the others work.
type Options struct {
	Client client.Client
	// Reader reads uncached.
	Reader client.Reader
	// Keys registers SSH keys with the vendor.
	Keys fleetsecret.Registrar
	// ClusterID identifies the management cluster in the names of these keys.
	ClusterID string
	// Macs dials Macs.
	Macs push.Dialer
	// Tracer makes spans of reconciles and pushes. Its zero value: none.
	Tracer tracing.Tracer
	// Agent is the build that Macs are given.
	Agent push.Agent
	// ClientCA are the authorities of the API server's clients, which Macs are given.
	// Default: none.
	ClientCA func(context.Context) ([]byte, error)
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
	Spawn func(work func())
	// Clock for tests. Default: the real one.
	Clock clock.PassiveClock
}

// Reconciler of infra machines.
type Reconciler struct {
	Options

	metrics *metrics
	// absences are the Hosts that Machines miss.
	absences memo.Memo[client.ObjectKey, machine.Absence]
	// waitMessages is when each Machine that waits for a host of the pool last said why.
	waitMessages memo.Memo[client.ObjectKey, time.Time]
	reservations reservations
	pushes       *job.Pool
	// checks share the slots of the pushes.
	checks  *job.Pool
	leaves  *job.Pool
	hosts   hostclaim.Hosts
	secrets bootstrapsecret.Secrets
	keys    *fleetsecret.Store
	tokens  *push.Tokens
	// disruptions is held while a recovery counts what others destroy and adds itself.
	disruptions sync.Mutex
	orders      order.Placer

	services
	claimPhase     *claimPhase
	bootstrapPhase *bootstrapPhase
	joinPhase      *joinPhase
	slotsPhase     *slotsPhase
	scaleDownPhase *scaleDownPhase
	releasePhase   *releasePhase
}

// New returns a reconciler with the defaults filled in.
func New(o Options) *Reconciler {
	o.SSHPort = cmp.Or(o.SSHPort, 22)
	o.Concurrency = cmp.Or(o.Concurrency, 32)
	o.ConvergeConcurrency = cmp.Or(o.ConvergeConcurrency, 20)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.ClientCA == nil {
		o.ClientCA = func(context.Context) ([]byte, error) { return nil, nil }
	}
	if o.Discovery.Reader == nil {
		o.Discovery.Reader = o.Reader
	}
	if o.Pause == nil {
		o.Pause = remote.Pause
	}
	r := &Reconciler{
		Options: o, metrics: newMetrics(), keys: &fleetsecret.Store{Client: o.Client, Reader: o.Reader, Keys: o.Keys, ClusterID: o.ClusterID},
		pushes: job.NewPool(o.ConvergeConcurrency, o.Clock, o.Spawn), leaves: job.NewPool(o.ConvergeConcurrency, o.Clock, o.Spawn),
	}
	r.checks = r.pushes.Sharing()
	r.wire()
	return r
}

// Wakeups are the Machines whose jobs have news, for whoever runs the reconciler
// without SetupWithManager.
func (r *Reconciler) Wakeups() []<-chan event.GenericEvent {
	return []<-chan event.GenericEvent{r.pushes.Wakeups(), r.leaves.Wakeups(), r.checks.Wakeups()}
}

// ForgetKey has a key registered again before it is next relied on: the vendor does
// not have it any more under this name.
func (r *Reconciler) ForgetKey(name string) { r.keys.Forget(name) }

// KnownKeys are the names of the keys that this process relies on to be registered.
func (r *Reconciler) KnownKeys() []string { return r.keys.Names() }

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
// +kubebuilder:rbac:groups="",resources=configmaps,namespace=kube-system,resourceNames=extension-apiserver-authentication,verbs=get

// Reconcile looks at one Machine. It never blocks on a Mac: that work is a job.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := &infrav1.ScalewayAppleSiliconMachine{}
	err := r.Client.Get(ctx, req.NamespacedName, m)
	if apierrors.IsNotFound(err) {
		r.pushes.Forget(req.NamespacedName)
		r.checks.Cancel(req.NamespacedName)
		r.checks.Forget(req.NamespacedName)
		r.leaves.Forget(req.NamespacedName)
		r.absences.Forget(req.NamespacedName)
		r.waitMessages.Forget(req.NamespacedName)
		r.reservations.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the Machine: %w", err)
	}
	if !host.Obeys(m, r.WatchFilter) {
		return ctrl.Result{}, nil
	}
	if err := r.cleanConditions(ctx, m); err != nil {
		return requeue.OnConflict(ctrl.Result{}, err)
	}
	v, err := r.machines.loadSnapshot(ctx, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	if machine.BeingMoved(m) {
		return requeue.OnConflict(ctrl.Result{}, r.recordMove(ctx, v))
	}
	if m.DeletionTimestamp.IsZero() {
		if stop, err := r.admit(ctx, v); stop || err != nil {
			return requeue.OnConflict(ctrl.Result{}, err)
		}
	}
	result, err := r.runPhases(ctx, v)
	if !v.skipStatus {
		result = util.LowestNonZeroResult(result, r.addZoneReport(v))
		err = errors.Join(err, r.patchStatus(ctx, v))
	}
	return requeue.OnConflict(result, err)
}

// patchStatus records the status, and notes that a failure is told.
func (r *Reconciler) patchStatus(ctx context.Context, v *visit) error {
	if err := r.writeStatus(ctx, v); err != nil {
		return err
	}
	r.forgetConsumed(v)
	if v.failure != nil {
		r.pushes.Note(client.ObjectKeyFromObject(v.Machine), func(run *job.Run) { run.Shown = true })
	}
	return nil
}

// admit holds paused Machines back, and puts the finalizer on before anything is
// done outside. Stop: the write that was made brings the Machine back.
func (r *Reconciler) admit(ctx context.Context, v *visit) (stop bool, err error) {
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, v.Cluster, v.Machine)
	if err != nil || isPaused || requeue {
		return true, err
	}
	if controllerutil.ContainsFinalizer(v.Machine, infrav1.MachineFinalizer) {
		return false, nil
	}
	return true, r.machines.patch(ctx, v, "finalizer", func(m *infrav1.ScalewayAppleSiliconMachine) {
		controllerutil.AddFinalizer(m, infrav1.MachineFinalizer)
	})
}

// runPhases runs the phases. Each looks for itself whether it has something to do.
func (r *Reconciler) runPhases(ctx context.Context, v *visit) (ctrl.Result, error) {
	if !v.Machine.DeletionTimestamp.IsZero() {
		return r.releasePhase.run(ctx, v)
	}
	var result ctrl.Result
	for _, phase := range []func(context.Context, *visit) (ctrl.Result, error){
		r.claimPhase.run, r.bootstrapPhase.run, r.joinPhase.run, r.slotsPhase.run, r.scaleDownPhase.run,
	} {
		next, err := phase(ctx, v)
		if err != nil {
			return ctrl.Result{}, err
		}
		result = util.LowestNonZeroResult(result, next)
	}
	return result, nil
}

// services are what phases share.
type services struct {
	claims     *claims
	disruption *disruption
	fleetKeys  *fleetKeys
	gone       *goneServers
	machines   *machines
	nodes      *nodes
	ownerships *ownerships
	pusher     *push.Pusher
	releases   *releases
	rights     *rights
	starter    *pushStarter
}

// wire gives each part what it needs of the options.
func (r *Reconciler) wire() {
	r.hosts = hostclaim.Hosts{Client: r.Client, Reader: r.Reader}
	r.secrets = bootstrapsecret.Secrets{Client: r.Client, Reader: r.Reader}
	r.tokens = &push.Tokens{Client: r.Client, Reader: r.Reader, Hosts: r.hosts, Secrets: r.secrets, Discovery: r.Discovery, Clock: r.Clock}
	r.wireServices()
	r.wirePhases()
}

func (r *Reconciler) wireServices() {
	pools := r.pools()
	r.pusher = &push.Pusher{
		Macs: r.Macs, Agent: r.Agent, Hosts: r.hosts, Secrets: r.secrets, Tokens: r.tokens, Clock: r.Clock, Pause: r.Pause, Observe: r.metrics.step, Tracer: r.Tracer,
	}
	r.machines = &machines{client: r.Client, reader: r.Reader, recorder: r.Recorder, clusterID: r.ClusterID}
	r.rights = &rights{client: r.Client, clock: r.Clock, reader: r.Reader, machines: r.machines, pools: pools, secrets: r.secrets}
	r.nodes = &nodes{client: r.Client, clock: r.Clock, reader: r.Reader, rights: r.rights}
	r.claims = &claims{
		client: r.Client, clock: r.Clock, reader: r.Reader, absences: &r.absences, machines: r.machines, metrics: r.metrics, nodes: r.nodes,
		pools: pools, pushes: r.pushes, secrets: r.secrets, tokens: r.tokens,
	}
	r.gone = &goneServers{clock: r.Clock, absences: &r.absences, lacks: r.Lacks, secrets: r.secrets, zone: r.Zone}
	r.releases = &releases{clock: r.Clock, hosts: r.hosts, machines: r.machines, pools: pools}
	r.ownerships = &ownerships{
		client: r.Client, reader: r.Reader, claims: r.claims, gone: r.gone, machines: r.machines, nodes: r.nodes, orders: &r.orders,
		releases: r.releases, rights: r.rights,
	}
	r.fleetKeys = &fleetKeys{keys: r.keys, machines: r.machines}
	r.starter = &pushStarter{
		clock: r.Clock, agent: r.Agent, checks: r.checks, clientCA: r.ClientCA, fleetKeys: r.fleetKeys, machines: r.machines, pusher: r.pusher, pushes: r.pushes, sshPort: r.SSHPort,
	}
	r.disruption = &disruption{clock: r.Clock, reader: r.Reader, machines: r.machines, zone: r.Zone, counting: &r.disruptions}
}

func (r *Reconciler) wirePhases() {
	pools := r.pools()
	r.reservations.clock = r.Clock
	r.claimPhase = &claimPhase{
		offer: r.offer(), client: r.Client, clock: r.Clock, reader: r.Reader, checks: r.checks, claims: r.claims,
		fleetKeys: r.fleetKeys, gone: r.gone, hosts: r.hosts, keys: r.keys, machines: r.machines, metrics: r.metrics, nodes: r.nodes,
		orders: &r.orders, pushes: r.pushes, reservations: &r.reservations, rights: r.rights, waitMessages: &r.waitMessages,
	}
	r.bootstrapPhase = &bootstrapPhase{
		clock: r.Clock, hosts: r.hosts, machines: r.machines, metrics: r.metrics, nodes: r.nodes, pushes: r.pushes, secrets: r.secrets, starter: r.starter,
		drift: &driftPhase{
			clock: r.Clock, checks: r.checks, driftCheckInterval: r.DriftCheckInterval, keys: r.keys, pusher: r.pusher, starter: r.starter,
		},
		recovery: &recovery{
			clock: r.Clock, claims: r.claims, disruption: r.disruption, hosts: r.hosts, maxAttempts: r.MaxAttempts,
			metrics: r.metrics, nodes: r.nodes, pools: pools, rebootAfter: r.RebootAfter, recoverAfter: r.RecoverAfter, releases: r.releases,
		},
		updates: &updatePhase{clock: r.Clock, metrics: r.metrics, pushes: r.pushes, starter: r.starter},
	}
	r.joinPhase = &joinPhase{clock: r.Clock, nodes: r.nodes, pushes: r.pushes, tokens: r.tokens}
	r.scaleDownPhase = &scaleDownPhase{client: r.Client, clock: r.Clock}
	r.slotsPhase = &slotsPhase{clock: r.Clock, reader: r.Reader, disruption: r.disruption, hosts: r.hosts}
	r.releasePhase = &releasePhase{
		clock: r.Clock, reader: r.Reader, absences: &r.absences, checks: r.checks, claims: r.claims, gone: r.gone,
		hosts: r.hosts, keys: r.keys, leaves: r.leaves, machines: r.machines, nodes: r.nodes, ownerships: r.ownerships, pools: pools,
		pusher: r.pusher, pushes: r.pushes, releases: r.releases, secrets: r.secrets, starter: r.starter, tokens: r.tokens,
	}
}

// offer is which hosts this manager's Machines may take.
func (r *Reconciler) offer() machine.Offer {
	return machine.Offer{Pools: r.pools(), RefuseUnseen: r.RefuseUnseen, WatchFilter: r.WatchFilter}
}

// pools are those known here, and whose they are.
func (r *Reconciler) pools() host.Pools {
	return host.Pools{Default: r.DefaultPoolPrefix, Of: r.NamespacePools}
}
