package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// zonesAtOnce bounds the lists that run at the same time.
const zonesAtOnce = 4

// Inventory is the one reader of the vendor's lists. It makes a Host for each
// server, wakes the reconciler of each host whose server changed, and knows how
// the last list of each zone went. It writes no status and removes nothing:
// one reconciler a host does that.
type Inventory struct {
	Options
	// Client lists from the cache and creates Hosts.
	Client client.Client

	readings readings
	health   *cloud.Health
	changes  chan event.GenericEvent
	kick     chan struct{}

	// mu guards what follows; readings have their own.
	mu      sync.Mutex
	reports map[string]host.ZoneReport
	wanted  map[string]bool
	running bool
}

// NewInventory returns an inventory that lists nothing before it is started.
func NewInventory(c client.Client, opts Options) *Inventory {
	return &Inventory{
		Options: opts, Client: c, health: &cloud.Health{Clock: opts.Clock}, changes: make(chan event.GenericEvent, 1024), kick: make(chan struct{}, 1),
		reports: map[string]host.ZoneReport{}, wanted: map[string]bool{},
	}
}

// Wakeups are the hosts whose servers changed.
func (i *Inventory) Wakeups() <-chan event.GenericEvent { return i.changes }

// NeedLeaderElection keeps the lists to one manager.
func (i *Inventory) NeedLeaderElection() bool { return true }

// Start lists all zones again and again until the context ends.
func (i *Inventory) Start(ctx context.Context) error {
	i.setRunning(true)
	defer i.setRunning(false)
	for {
		i.Sweep(ctx)
		timer := i.Clock.NewTimer(i.InventoryInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		case <-i.kick:
			timer.Stop()
		}
	}
}

func (i *Inventory) setRunning(running bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running = running
}

// isRunning tells the metrics whether this manager leads.
func (i *Inventory) isRunning() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.running
}

// Zone returns how the last list of a zone went; false when none has ended yet.
// A zone that nobody asked for before is listed at once and from then on.
func (i *Inventory) Zone(zone string) (host.ZoneReport, bool) {
	i.mu.Lock()
	report, known := i.reports[zone]
	asked := i.wanted[zone]
	i.wanted[zone] = true
	i.mu.Unlock()
	if !known && !asked {
		i.hasten()
	}
	report.Failing = i.health.Failing(i.Clock.Now())
	return report, known
}

// Lacks reports that the last list of a zone, of this manager's own, lacked the server.
func (i *Inventory) Lacks(zone, serverID string) bool {
	seen, known := i.readings.look(zone, serverID)
	return known && !seen.missingSince.IsZero()
}

// hasten begins the next lists now.
func (i *Inventory) hasten() {
	select {
	case i.kick <- struct{}{}:
	default:
	}
}

// Sweep lists each zone once.
func (i *Inventory) Sweep(ctx context.Context) {
	log := ctrl.LoggerFrom(ctx).WithName("inventory")
	zones, hosts, err := i.zones(ctx)
	if err != nil {
		log.Error(err, "The inventory does not know its zones")
		return
	}
	var group errgroup.Group
	group.SetLimit(zonesAtOnce)
	for _, zone := range zones {
		group.Go(func() error {
			i.sweepZone(ctrl.LoggerInto(ctx, log.WithValues("zone", zone)), zone, hosts[zone])
			return nil
		})
	}
	_ = group.Wait() // a zone's error is in its report
}

// zones are all zones to list, with the Hosts known in each.
func (i *Inventory) zones(ctx context.Context) ([]string, map[string][]*host.Host, error) {
	zones := map[string]bool{}
	i.mu.Lock()
	maps.Copy(zones, i.wanted)
	i.mu.Unlock()
	for _, zone := range i.OrphanReclaimZones {
		zones[zone] = true
	}
	clusters := &infrav1.ScalewayAppleSiliconClusterList{}
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	known := &infrav1.ScalewayAppleSiliconHostList{}
	for _, list := range []client.ObjectList{clusters, machines, known} {
		if err := i.Client.List(ctx, list); err != nil {
			return nil, nil, fmt.Errorf("listing from the cache: %w", err)
		}
	}
	for _, cluster := range clusters.Items {
		for _, zone := range cluster.Spec.Zones {
			zones[zone] = true
		}
	}
	for _, machine := range machines.Items {
		zones[machine.Spec.Zone] = true
		zones[host.ProviderZone(machine.Spec.ProviderID)] = true
	}
	hosts := map[string][]*host.Host{}
	for n := range known.Items {
		h := &known.Items[n]
		zones[h.Spec.Zone] = true
		hosts[h.Spec.Zone] = append(hosts[h.Spec.Zone], h)
	}
	delete(zones, "")
	return slices.Sorted(maps.Keys(zones)), hosts, nil
}

// sweepZone lists one zone, makes its new Hosts, and wakes the changed ones.
func (i *Inventory) sweepZone(ctx context.Context, zone string, hosts []*host.Host) {
	started := i.Clock.Now()
	servers, err := i.Cloud.ListServers(ctx, zone)
	if err != nil {
		i.report(ctx, zone, func(r *host.ZoneReport) { r.Err = err })
		return
	}
	expected, orders := known(hosts)
	witnessed := i.witness(zone)
	expected.proof = i.rights(ctx, zone, len(servers) > 0 || witnessed, expected.expendable)
	suspicious := i.readings.list(zone, servers, expected, started)
	for _, server := range servers {
		if expected.has(server.ID) {
			continue
		}
		if order := orders[server.Name]; order != nil {
			i.queue(ctx, order) // it makes the Host itself, with its claim
			continue
		}
		err = firstError(err, i.create(ctx, zone, server.ID))
	}
	i.wake(ctx, hosts)
	i.report(ctx, zone, func(r *host.ZoneReport) {
		*r = host.ZoneReport{Hosts: len(servers), Err: err, At: started, Suspicious: suspicious, EmptyBelieved: witnessed}
	})
}

// rights tells for which servers a list is proof of absence. An empty one may be
// lost rights, and no other call tells the two apart: the vendor answers the GET
// of a deleted server and that of a forbidden one alike. Then only another zone
// that does list servers bears witness. What we gave back ourselves is expected to
// go, and what a person deleted in the midst of its release is given up: those need
// no more than credentials that work.
func (i *Inventory) rights(ctx context.Context, zone string, believed bool, expendable map[string]bool) func(id string) bool {
	if believed {
		return func(string) bool { return true }
	}
	access := len(expendable) > 0 && i.Cloud.CheckAccess(ctx, zone) == nil
	return func(id string) bool { return access && expendable[id] }
}

// witness reports that another zone listed servers, with the same rights, lately.
func (i *Inventory) witness(zone string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for other, report := range i.reports {
		if other != zone && report.Err == nil && report.Hosts > 0 && i.Clock.Since(report.At) <= 2*i.InventoryInterval {
			return true
		}
	}
	return false
}

// known are the servers that a zone's list ought to hold, and the orders that were
// sent and no server is known of yet, by the name it will have.
func known(hosts []*host.Host) (expected expectation, orders map[string]*host.Host) {
	expected.returned, expected.expendable, orders = map[string]bool{}, map[string]bool{}, map[string]*host.Host{}
	for _, h := range hosts {
		if h.Spec.Order != nil {
			if h.Spec.Order.AttemptedAt != nil { // before, a server of the name is another's
				orders[h.Spec.Order.Name] = h
			}
			continue
		}
		expected.ids = append(expected.ids, h.Spec.ServerID)
		returned := h.Spec.Release != nil && h.Spec.Release.Policy == infrav1.Terminate
		if returned {
			expected.returned[h.Spec.ServerID] = true
		}
		if returned || (h.Spec.Release != nil && !h.DeletionTimestamp.IsZero()) {
			expected.expendable[h.Spec.ServerID] = true
		}
	}
	slices.Sort(expected.ids)
	return expected, orders
}

// report keeps how a list went, and tells when that changed.
func (i *Inventory) report(ctx context.Context, zone string, change func(*host.ZoneReport)) {
	i.mu.Lock()
	was, known := i.reports[zone]
	now := was
	change(&now)
	i.reports[zone] = now
	i.mu.Unlock()
	log := ctrl.LoggerFrom(ctx)
	switch {
	case now.Err != nil && (was.Err == nil || was.Err.Error() != now.Err.Error()):
		log.Info("The zone cannot be listed", "error", now.Err.Error())
	case now.Err == nil && (!known || was.Err != nil):
		log.Info("The zone is listed", "servers", now.Hosts)
	}
	if now.Suspicious && !was.Suspicious {
		log.Info("Too many servers vanished at once to believe the list", "servers", now.Hosts)
	}
}

func (i *Inventory) create(ctx context.Context, zone, id string) error {
	h := &host.Host{
		ObjectMeta: metav1.ObjectMeta{Name: host.ObjectName(zone, id)},
		Spec:       infrav1.ScalewayAppleSiliconHostSpec{ServerID: id, Zone: zone},
	}
	if i.WatchFilter != "" {
		h.Labels = map[string]string{clusterv1.WatchLabel: i.WatchFilter}
	}
	err := i.Client.Create(ctx, h)
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache lags, or another manager was first
	}
	if err != nil {
		return fmt.Errorf("creating host %s: %w", h.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Found a server", "host", h.Name)
	return nil
}

// wake queues the hosts whose status says something else than the newest reading.
func (i *Inventory) wake(ctx context.Context, hosts []*host.Host) {
	for _, h := range hosts {
		if h.Spec.Order == nil && i.differs(h) {
			i.queue(ctx, h)
		}
	}
}

// queue has the reconciler look at a host.
func (i *Inventory) queue(ctx context.Context, h *host.Host) {
	select {
	case i.changes <- event.GenericEvent{Object: h}:
	case <-ctx.Done():
	}
}

func (i *Inventory) differs(h *host.Host) bool {
	seen, known := i.readings.look(h.Spec.Zone, h.Spec.ServerID)
	switch {
	case !known:
		return false
	case seen.gone:
		return h.Status.Phase != infrav1.HostGone
	case !seen.missingSince.IsZero():
		return h.Status.MissingSince == nil || !h.Status.MissingSince.Time.Equal(seen.missingSince.Truncate(time.Microsecond))
	}
	return h.Status.MissingSince != nil || !sameServer(h.Status.Server, serverStatus(seen.server))
}

func sameServer(a, b infrav1.ServerStatus) bool {
	sameFloor := a.DeletableAt.Equal(b.DeletableAt)
	a.DeletableAt, b.DeletableAt = nil, nil
	return sameFloor && a == b
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
