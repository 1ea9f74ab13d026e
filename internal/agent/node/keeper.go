package node

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/agent/slot"
)

const (
	// syncInterval is how often the Node and the permit are looked at, beside what
	// the watch tells; a quarter of it is random.
	syncInterval   = 10 * time.Second
	requestTimeout = 15 * time.Second
	// sameReason is how often an unchanged reason to wait is logged.
	sameReason = time.Minute
)

// Options of a Keeper. All must be set but Clock, Log, Images, Events and
// OnLeaseTrouble.
type Options struct {
	Client kube.Client
	// LeaseClient should have connections of its own and a short timeout, so that
	// nothing else can hold up the heartbeat.
	LeaseClient kube.Client
	// OnLeaseTrouble is called after repeated failures of the heartbeat. It should close
	// all connections: what they say may never arrive.
	OnLeaseTrouble func()
	Self           Self
	// PermitFile is the join permit; StateDir keeps the ids of used ones.
	PermitFile, StateDir string
	// Health of the host. Until it has found something out the Node has no status.
	Health Health
	// Slots say how many guests the Node has place for.
	Slots Slots
	// Images that the host holds, as the Node shows them, the biggest first. Nil: none.
	Images func() []corev1.ContainerImage
	// Events takes those about the Node. Nil: there are none.
	Events record.EventRecorder
	Clock  clock.WithTicker
	Log    *slog.Logger
}

// Health is what is found out about the host, as package health does it.
type Health interface {
	Findings() []health.Finding
	Changed() <-chan struct{}
}

// Slots are the guests' places, as package slot counts them.
type Slots interface {
	State() slot.State
	Changed() <-chan struct{}
}

// Keeper keeps one Node.
type Keeper struct {
	o       Options
	permits permits
	wake    chan struct{}
	// usedPermit is the permit that this process marked as used and may go on trying
	// with, as the API server said for sure that it made no Node.
	usedPermit string

	reporter reporter
	// reconnected: the heartbeat works again after it did not.
	reconnected atomic.Bool

	// uid is the life of the Node that stop ends the heartbeat of.
	uid  types.UID
	stop context.CancelFunc

	blockedBy string
	blockedAt time.Time
}

// New returns a keeper; Run makes it work.
func New(o Options) *Keeper {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Keeper{
		o:        o,
		permits:  permits{file: o.PermitFile, used: filepath.Join(o.StateDir, "used-permits.json")},
		wake:     make(chan struct{}, 1),
		reporter: reporter{self: o.Self},
	}
}

// Run keeps the Node until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	informer := kube.NewInformer(k.o.Client, k.o.Client.Nodes(), &corev1.Node{}, fields.OneTermEqualSelector(metav1.ObjectNameField, k.name()))
	if _, err := informer.AddEventHandler(k.waker()); err != nil {
		return fmt.Errorf("watching the Node: %w", err)
	}
	k.event(corev1.EventTypeNormal, reasonStarting, "Starting tart-kubelet %s.", k.o.Self.Version)
	var watching sync.WaitGroup
	watching.Go(func() { informer.RunWithContext(ctx) })
	defer watching.Wait()
	defer k.stopHeartbeat()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	for ctx.Err() == nil {
		// Asked for before what they tell of is looked at: nothing is missed.
		healthNews, slotNews := k.o.Health.Changed(), k.o.Slots.Changed()
		if err := k.sync(ctx, k.seen(informer)); err != nil && ctx.Err() == nil {
			k.logBlocked(err.Error())
		}
		k.pause(ctx, healthNews, slotNews)
	}
	return nil
}

func (k *Keeper) name() string { return k.o.Self.Config.Host.Name }

func (k *Keeper) waker() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { k.wakeUp() },
		UpdateFunc: func(any, any) { k.wakeUp() },
		DeleteFunc: func(any) { k.wakeUp() },
	}
}

func (k *Keeper) wakeUp() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// pause ends early when there is something new to say.
func (k *Keeper) pause(ctx context.Context, healthNews, slotNews <-chan struct{}) {
	t := k.o.Clock.NewTimer(syncInterval - rand.N(syncInterval/4))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-k.wake:
	case <-healthNews:
	case <-slotNews:
	case <-t.C():
	}
}

// seen is the Node as it was seen last; nil where there is none.
func (k *Keeper) seen(nodes cache.SharedInformer) *corev1.Node {
	found, exists, err := nodes.GetStore().GetByKey(k.name())
	if n, is := found.(*corev1.Node); exists && err == nil && is {
		return n
	}
	return nil
}

// sync looks once and does one thing.
func (k *Keeper) sync(ctx context.Context, n *corev1.Node) error {
	if n == nil || n.Spec.ProviderID != k.o.Self.Config.Host.ProviderID {
		var err error
		if n, err = k.register(ctx); err != nil || n == nil {
			k.stopHeartbeat()
			return err
		}
	}
	k.startHeartbeat(ctx, n)
	return k.report(ctx, n)
}

// startHeartbeat starts the heartbeat of a Node, ending that of an earlier life.
func (k *Keeper) startHeartbeat(ctx context.Context, n *corev1.Node) {
	if k.uid == n.UID {
		return
	}
	k.stopHeartbeat()
	k.usePermitUp()
	beating, stop := context.WithCancel(ctx)
	k.uid, k.stop = n.UID, stop
	k.o.Log.Info("Node is ours", "node", n.Name, "uid", n.UID)
	go k.beat(beating, n)
}

// usePermitUp uses the permit up for good: a Node was seen, so it has done its work, also
// where an answer had taken the record of it back.
func (k *Keeper) usePermitUp() {
	if k.usedPermit == "" {
		return
	}
	if err := k.permits.use(k.usedPermit); err != nil {
		k.logBlocked(err.Error())
	}
	k.usedPermit = ""
}

// stopHeartbeat ends the heartbeat.
func (k *Keeper) stopHeartbeat() {
	if k.stop != nil {
		k.stop()
	}
	k.uid, k.stop = "", nil
}

// logBlocked logs what keeps the Node away: at once when it is new, then rarely.
func (k *Keeper) logBlocked(why string) {
	now := k.o.Clock.Now()
	if why == k.blockedBy && now.Sub(k.blockedAt) < sameReason {
		return
	}
	k.blockedBy, k.blockedAt = why, now
	k.o.Log.Error("the Node is not kept", "node", k.name(), "why", why)
}
