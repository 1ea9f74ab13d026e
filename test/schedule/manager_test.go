package schedule

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/macfleet/macfleet/internal/cloud"
	hostctl "github.com/macfleet/macfleet/internal/controller/host"
	"github.com/macfleet/macfleet/internal/controller/machine"
	nodectl "github.com/macfleet/macfleet/internal/controller/node"
)

// poolPrefix is that of both clusters: they share the vendor's project and its pool.
const poolPrefix = "tuist-pool-"

// mostAttempts of a bootstrap on one host.
const mostAttempts = 4

// seams are where a test puts a known bug back into the product.
type seams struct {
	client func(*manager, client.Client) client.Client
	reader func(*manager, client.Reader) client.Reader
	cloud  func(*manager, cloud.Cloud) cloud.Cloud
	// sweep is what the sweep reads beside its cache.
	sweep func(*manager, client.Reader) client.Reader
	// fair: what the bug needs is rarer in the weather, so there is none.
	fair bool
	// apart: there are two namespaces, with a manager each.
	apart bool
	// options are what the controllers of Hosts are given otherwise.
	options func(*hostctl.Options)
	// from is the first seed to try, near one that shows the bug; 0: the first of all.
	from uint64
	// extra is one more actor beside the controllers, run with each pass of a host.
	extra func(ctx context.Context, m *manager, host string)
}

// manager is one process: its watches' caches, its reconcilers, and nothing that
// outlives it.
type manager struct {
	sim     *sim
	cluster *cluster
	name    string
	dead    bool
	// hidden is the namespace of the cluster's other manager; empty: it works for all.
	hidden string

	cache    *cache
	cached   client.Client
	fresh    client.Reader
	hosts    *hostctl.Reconciler
	machines *machine.Reconciler
	sweep    *hostctl.Sweep
	nodes    *nodectl.Reconciler
	busy     map[string]bool
	// missed is the server that its last list lacked, though it is there.
	missed string
	// missedAt is when a list of it lacked which server last.
	missedAt map[string]time.Time
}

func (s *sim) startManager(c *cluster, n int) *manager {
	hidden := s.hidden(n)
	m := &manager{sim: s, cluster: c, name: fmt.Sprintf("%s%d", c.name, n), hidden: hidden, cache: newCache(c.store, hidden), busy: map[string]bool{}, missedAt: map[string]time.Time{}}
	now := s.clockOf(c, n)
	m.cached = &port{m: m, store: c.store, from: m.cache}
	m.fresh = &port{m: m, store: c.store, from: c.store}
	vendor, err := m.vendorClient()
	s.must(err)
	if s.seams.client != nil {
		m.cached = s.seams.client(m, m.cached)
	}
	if s.seams.reader != nil {
		m.fresh = s.seams.reader(m, m.fresh)
	}
	if s.seams.cloud != nil {
		vendor = s.seams.cloud(m, vendor)
	}
	options := hostctl.Options{
		Cloud: vendor, Clock: now, DefaultPoolPrefix: poolPrefix, OrphanReclaimZones: []string{zone}, ClaimNamePrefix: c.reclaims,
	}
	if s.apart {
		options.Namespace = c.namespaces()[n-1]
	}
	if s.seams.options != nil {
		s.seams.options(&options)
	}
	m.hosts, err = hostctl.New(m.cached, m.fresh, recorder{m}, options)
	s.must(err)
	sweeps := m.hosts
	if s.seams.sweep != nil {
		sweeps, err = hostctl.New(m.cached, s.seams.sweep(m, m.fresh), recorder{m}, options)
		s.must(err)
		sweeps.Inventory = m.hosts.Inventory
	}
	m.sweep = hostctl.NewSweep(sweeps)
	m.nodes = &nodectl.Reconciler{Client: m.cached, Reader: m.fresh, Recorder: recorder{m}, Clock: now}
	m.machines = machine.New(machine.Options{
		Client: m.cached, Reader: m.fresh, Keys: vendor, Macs: dialer{m}, Agent: s.agent,
		RebootAfter: 2, MaxAttempts: mostAttempts,
		Zone: m.hosts.Inventory.Zone, Lacks: m.hosts.Inventory.Lacks, DefaultPoolPrefix: poolPrefix, Recorder: recorder{m}, Clock: now,
		Spawn: func(job func()) { s.tasks = append(s.tasks, s.newTask(m, m.name+": job", job)) },
	})
	return m
}

// pass is a reconciler's look at one object; nil while one is under way.
func (m *manager) pass(controller string, key types.NamespacedName) *task {
	id := controller + " " + key.String()
	if m.busy[id] || m.cache.hidden(key) {
		return nil
	}
	m.busy[id] = true
	t := m.sim.newTask(m, m.name+": "+controller+" "+shortKey(key), func() {
		defer delete(m.busy, id)
		var err error
		switch controller {
		case "host":
			_, err = m.hosts.Reconcile(context.Background(), reconcile.Request{NamespacedName: key})
			if m.sim.seams.extra != nil {
				m.sim.seams.extra(context.Background(), m, key.Name)
			}
		case "machine":
			m.unpause(key)
			_, err = m.machines.Reconcile(context.Background(), reconcile.Request{NamespacedName: key})
		case "node":
			_, err = m.nodes.Reconcile(context.Background(), reconcile.Request{NamespacedName: key})
		case "inventory":
			m.hosts.Inventory.Sweep(context.Background())
		case "sweep":
			m.sweep.Once(context.Background())
		}
		if err != nil {
			m.sim.keepSecret("an error", err.Error())
		}
		m.drain()
	})
	if controller == "machine" {
		t.machine = key
	}
	return t
}

// unpause brings a Machine's newest version into the cache where the Paused
// condition would have to change: Cluster API's helper meets a stale copy there
// with a real sleep.
func (m *manager) unpause(key types.NamespacedName) {
	kind := "ScalewayAppleSiliconMachine"
	if m.cache.get(kind, key) != m.cluster.store.get(kind, key) && pausedDiffers(m.cache, key) {
		m.cache.deliver(kind, len(m.cluster.store.log[kind]))
	}
}

// drain forgets what would wake the work queue: the schedule wakes by chance.
func (m *manager) drain() {
	channels := append([]<-chan event.GenericEvent{m.hosts.Inventory.Wakeups()}, m.machines.Wakeups()...)
	for _, channel := range channels {
		for len(channel) > 0 {
			<-channel
		}
	}
}

// recorder keeps an eye on events: none may tell a secret.
type recorder struct{ m *manager }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	r.m.sim.keepSecret("an event", text)
	if object, is := regarding.(client.Object); is {
		r.m.sim.note("  %s: event %s of %s: %.100s", r.m.name, reason, shortKey(client.ObjectKeyFromObject(object)), text)
	}
}
