package node

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/slot"
)

const (
	// lookInterval is how often the Node and the permit are looked at, beside what
	// the watch tells; a quarter of it is random.
	lookInterval   = 10 * time.Second
	requestTimeout = 15 * time.Second
	// sameComplaint is how often an unchanged reason to wait is logged.
	sameComplaint = time.Minute
)

// Options of a Keeper. All must be set but Clock, Log, Images and
// OnLeaseTrouble.
type Options struct {
	Client kubernetes.Interface
	// LeaseClient should have connections of its own and a short timeout, so that
	// nothing else can hold up the heartbeat.
	LeaseClient kubernetes.Interface
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
	// spent is the permit that this process marked as used and may go on trying
	// with, as the API server said for sure that it made no Node.
	spent string

	reporter reporter
	// back: the heartbeat works again after it did not.
	back atomic.Bool

	// uid is the life of the Node that stop ends the heartbeat of.
	uid  types.UID
	stop context.CancelFunc

	complaint    string
	complainedAt time.Time
}

// NewKeeper returns a keeper; Run makes it work.
func NewKeeper(o Options) *Keeper {
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
	factory := informers.NewSharedInformerFactoryWithOptions(k.o.Client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, k.name()).String()
		}))
	nodes := factory.Core().V1().Nodes()
	if _, err := nodes.Informer().AddEventHandler(k.waker()); err != nil {
		return fmt.Errorf("watching the Node: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer k.rest()
	if !cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced) {
		return nil
	}
	for ctx.Err() == nil {
		// Asked for before what they tell of is looked at: nothing is missed.
		healthNews, slotNews := k.o.Health.Changed(), k.o.Slots.Changed()
		if err := k.step(ctx, nodes.Lister()); err != nil && ctx.Err() == nil {
			k.complain(err.Error())
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
	t := k.o.Clock.NewTimer(lookInterval - rand.N(lookInterval/4))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-k.wake:
	case <-healthNews:
	case <-slotNews:
	case <-t.C():
	}
}

// step looks once and does one thing.
func (k *Keeper) step(ctx context.Context, lister corelisters.NodeLister) error {
	n, err := lister.Get(k.name())
	if err != nil {
		n = nil // the cache has no other error than that it is not there
	}
	if n == nil || n.Spec.ProviderID != k.o.Self.Config.Host.ProviderID {
		if n, err = k.register(ctx); err != nil || n == nil {
			k.rest()
			return err
		}
	}
	k.live(ctx, n)
	return k.report(ctx, n)
}

// live starts the heartbeat of a Node, ending that of an earlier life.
func (k *Keeper) live(ctx context.Context, n *corev1.Node) {
	if k.uid == n.UID {
		return
	}
	k.rest()
	k.end()
	beating, stop := context.WithCancel(ctx)
	k.uid, k.stop = n.UID, stop
	k.o.Log.Info("Node is ours", "node", n.Name, "uid", n.UID)
	go k.beat(beating, n)
}

// end uses the permit up for good: a Node was seen, so it has done its work, also
// where an answer had taken the record of it back.
func (k *Keeper) end() {
	if k.spent == "" {
		return
	}
	if err := k.permits.use(k.spent); err != nil {
		k.complain(err.Error())
	}
	k.spent = ""
}

// rest ends the heartbeat.
func (k *Keeper) rest() {
	if k.stop != nil {
		k.stop()
	}
	k.uid, k.stop = "", nil
}

// complain logs what keeps the Node away: at once when it is new, then rarely.
func (k *Keeper) complain(why string) {
	now := k.o.Clock.Now()
	if why == k.complaint && now.Sub(k.complainedAt) < sameComplaint {
		return
	}
	k.complaint, k.complainedAt = why, now
	k.o.Log.Error("the Node is not kept", "node", k.name(), "why", why)
}
