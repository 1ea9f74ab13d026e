package pod

import (
	"context"
	"fmt"
	"log/slog"
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

	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/agent/pod/admission"
	"github.com/macfleet/macfleet/internal/agent/pod/allocation"
	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/pod/probe"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/slot"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// sweepInterval is how often VMs without a Pod are looked for.
const sweepInterval = 30 * time.Second

// Options of Run. All but Guard, Started, Slots, Clock and Log must be set.
type Options struct {
	Client kube.Client
	Events record.EventRecorder
	Driver vm.Driver
	Shims  vmruntime.Shims
	Images Images
	Inputs Inputs
	// Guard is asked before and after a VM starts; nil: nobody is.
	Guard firewall.Guard
	// Started is called when a VM has run for so long that its start was not
	// refused; nil: nobody is told.
	Started func()
	// Dir keeps the checkpoints.
	Dir      string
	NodeName string
	// HostIP is the Node's InternalIP; a Pod has none of its own, as the addresses
	// of guests mean nothing outside their host.
	HostIP string
	Host   admission.Host
	// Slots that the guests share with whoever tells the cluster of them. Nil: as many
	// as the host may have.
	Slots *slot.Gate
	// BootSession of the host, another one after each boot.
	BootSession string
	Clock       clock.WithTicker
	Log         *slog.Logger
}

// Supervisor gives each Pod of the Node its worker.
type Supervisor struct {
	shared
	nodeName string

	// known: every Pod there was at the start has its worker.
	known atomic.Bool
	// unseen are the VMs that were reported as ones that cannot be looked at. Only the
	// sweep touches it.
	unseen map[string]bool

	mu      sync.Mutex
	workers map[types.UID]*job
	running sync.WaitGroup
}

// job is a worker, and whether it has come to its end.
type job struct {
	worker *worker
	done   chan struct{}
}

// isFreed reports whether the worker is done with what there was of its Pod on the host.
func (j *job) isFreed() bool {
	select {
	case <-j.worker.freed:
		return true
	default:
		return false
	}
}

// NewSupervisor returns a supervisor; Run makes it work.
func NewSupervisor(o Options) *Supervisor {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Slots == nil {
		o.Slots = slot.New(o.Host.MaxVMs)
	}
	cpus, memory := o.Host.Allocatable()
	return &Supervisor{
		nodeName: o.NodeName,
		workers:  map[types.UID]*job{},
		shared: shared{
			client: o.Client, events: o.Events, driver: o.Driver, shims: o.Shims, guard: o.Guard, started: o.Started,
			images: o.Images, inputs: o.Inputs, probes: &probe.Metrics{}, slots: o.Slots,
			checkpoints: checkpoint.Store(filepath.Join(o.Dir, "pods")),
			clock:       o.Clock, log: o.Log, host: o.Host, ledger: allocation.New(allocation.Amount{MilliCPUs: cpus, MemoryBytes: memory}), hostIP: o.HostIP, bootSession: o.BootSession,
		},
	}
}

// Run watches the Pods of the Node until ctx ends. VMs go on running.
func (s *Supervisor) Run(ctx context.Context) error {
	if err := s.adoptSlots(ctx); err != nil {
		return err
	}
	informer := kube.NewInformer(s.client, s.client.Pods(metav1.NamespaceAll), &corev1.Pod{}, fields.OneTermEqualSelector("spec.nodeName", s.nodeName))
	registration, err := informer.AddEventHandler(s.handler(ctx))
	if err != nil {
		return fmt.Errorf("watching Pods: %w", err)
	}
	var watching sync.WaitGroup
	watching.Go(func() { informer.RunWithContext(ctx) })
	// Handlers first: they start what is waited for.
	defer s.running.Wait()
	defer watching.Wait()
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	s.known.Store(true)
	s.ledger.Open()
	s.log.Info("Pods are known", "workers", s.count())
	s.sweepUntil(ctx)
	return nil
}

func (s *Supervisor) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.workers)
}

func (s *Supervisor) handler(ctx context.Context) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { s.podSeen(ctx, o) },
		UpdateFunc: func(before, after any) {
			// A delete and a create of one name may come as an update.
			if old, ok := before.(*corev1.Pod); ok && old.UID != uidOf(after) {
				s.podGone(old.UID)
			}
			s.podSeen(ctx, after)
		},
		DeleteFunc: func(o any) {
			if tomb, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tomb.Obj
			}
			s.podGone(uidOf(o))
		},
	}
}

func uidOf(o any) types.UID {
	if p, ok := o.(*corev1.Pod); ok {
		return p.UID
	}
	return ""
}

func (s *Supervisor) podSeen(ctx context.Context, o any) {
	p, ok := o.(*corev1.Pod)
	if !ok || ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.workers[p.UID]; j != nil {
		j.worker.update(p)
		return
	}
	if !s.known.Load() {
		s.ledger.Expect(p.UID)
	}
	j := &job{worker: newWorker(ctx, s.shared, p), done: make(chan struct{})}
	s.workers[p.UID] = j
	s.running.Go(func() {
		defer close(j.done)
		j.worker.Run(ctx)
	})
}

// Known reports whether all Pods of the host are: before, Images may lack some.
func (s *Supervisor) Known() bool { return s.known.Load() }

// Images are those that the Pods of this host name and may still start.
func (s *Supervisor) Images() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, j := range s.workers {
		p := j.worker.pod.current()
		if state.HasEnded(p) {
			continue
		}
		for _, c := range p.Spec.Containers {
			list = append(list, c.Image)
		}
	}
	return list
}

// podGone forgets a Pod once its worker has come to the end.
func (s *Supervisor) podGone(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.workers[uid]
	if j == nil {
		return
	}
	j.worker.gone()
	s.running.Go(func() {
		<-j.done
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.workers, uid)
	})
}
