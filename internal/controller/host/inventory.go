package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
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
	trigger  chan struct{}
	// running tells the metrics whether this manager leads.
	running atomic.Bool

	// mu guards what follows; readings have their own.
	mu      sync.Mutex
	reports map[string]host.ZoneReport
	wanted  map[string]bool
}

// newInventory returns an inventory that lists nothing before it is started.
func newInventory(c client.Client, opts Options) *Inventory {
	return &Inventory{
		Options: opts, Client: c, health: &cloud.Health{Clock: opts.Clock}, changes: make(chan event.GenericEvent, 1024), trigger: make(chan struct{}, 1),
		reports: map[string]host.ZoneReport{}, wanted: map[string]bool{},
	}
}

// Wakeups are the hosts whose servers changed.
func (i *Inventory) Wakeups() <-chan event.GenericEvent { return i.changes }

// NeedLeaderElection keeps the lists to one manager.
func (i *Inventory) NeedLeaderElection() bool { return true }

// Start lists all zones again and again until the context ends.
func (i *Inventory) Start(ctx context.Context) error {
	i.running.Store(true)
	defer i.running.Store(false)
	every(ctx, i.Clock, i.InventoryInterval, i.trigger, i.Sweep)
	return nil
}

// every acts at once, and then at each interval and trigger, until the context ends.
func every(ctx context.Context, c clock.Clock, interval time.Duration, trigger <-chan struct{}, act func(context.Context)) {
	for {
		act(ctx)
		timer := c.NewTimer(interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		case <-trigger:
			timer.Stop()
		}
	}
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
		i.ListNow()
	}
	report.Failing = i.health.Failing(i.Clock.Now())
	report.Refused = i.Rights.Refused()
	return report, known
}

// Lacks reports that the last list of a zone, of this manager's own, lacked the server.
func (i *Inventory) Lacks(zone, serverID string) bool {
	seen, known := i.readings.newest(zone, serverID)
	return known && !seen.missingSince.IsZero()
}

// ListNow begins the next lists now.
func (i *Inventory) ListNow() {
	select {
	case i.trigger <- struct{}{}:
	default:
	}
}

// Bears reports that the newest reading of some server of the zone shows the name.
func (i *Inventory) Bears(zone, name string) bool { return i.readings.bears(zone, name) }

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
	i.mu.Lock()
	zones := sets.KeySet(i.wanted)
	i.mu.Unlock()
	zones.Insert(i.OrphanReclaimZones...)
	clusters := &infrav1.ScalewayAppleSiliconClusterList{}
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	known := &infrav1.ScalewayAppleSiliconHostList{}
	for _, list := range []client.ObjectList{clusters, machines, known} {
		if err := i.Client.List(ctx, list); err != nil {
			return nil, nil, fmt.Errorf("listing from the cache: %w", err)
		}
	}
	for _, cluster := range clusters.Items {
		zones.Insert(cluster.Spec.Zones...)
	}
	for _, machine := range machines.Items {
		zones.Insert(machine.Spec.Zone, host.ProviderZone(machine.Spec.ProviderID))
	}
	hosts := map[string][]*host.Host{}
	for n := range known.Items {
		h := &known.Items[n]
		if i.obeys(h) {
			zones.Insert(h.Spec.Zone)
		}
		hosts[h.Spec.Zone] = append(hosts[h.Spec.Zone], h)
	}
	return sets.List(zones.Delete("")), hosts, nil
}

// sweepZone lists one zone, makes its new Hosts, and wakes the changed ones.
func (i *Inventory) sweepZone(ctx context.Context, zone string, hosts []*host.Host) {
	started := i.Clock.Now()
	servers, err := i.Cloud.ListServers(ctx, zone)
	if err != nil {
		i.report(ctx, zone, func(r *host.ZoneReport) { r.Err, r.FailingSince = err, cmp.Or(r.FailingSince, started) })
		return
	}
	i.noteProject(ctx, hosts, servers)
	expected, orders := i.expect(hosts, started)
	witnessed := i.witness(zone)
	expected.proof = i.rights(ctx, zone, len(servers) > 0 || witnessed, expected.expendable)
	missing := i.readings.list(zone, servers, expected, started)
	suspicious := host.Suspicious(len(expected.ids), missing, len(servers))
	for _, server := range servers {
		if expected.known(server.ID) {
			continue
		}
		if order := orders[server.Name]; order != nil {
			i.queue(ctx, order) // it makes the Host itself, with its claim
			continue
		}
		err = cmp.Or(err, i.create(ctx, zone, server.ID))
	}
	i.wake(ctx, hosts)
	if other := i.otherProject(hosts, expected); other != nil {
		err, suspicious = other, true
	}
	i.report(ctx, zone, func(r *host.ZoneReport) {
		now := host.ZoneReport{
			Hosts: len(servers), Err: err, At: started, Suspicious: suspicious, EmptyBelieved: witnessed,
			Expected: len(expected.ids), Missing: missing,
		}
		if err != nil {
			now.FailingSince = cmp.Or(r.FailingSince, started)
		}
		*r = now
	})
}

// rights tells for which servers a list is proof of absence. An empty one may be
// lost rights, and no other call tells the two apart: the vendor answers the GET
// of a deleted server and that of a forbidden one alike. Then only another zone
// that does list servers bears witness. What we gave back ourselves is expected to
// go once it is deleted or its date is there, and what a person deleted in the midst of its
// release is given up: those need no more than credentials that work.
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

// expect are the servers that a zone's list ought to hold, and the orders that were
// sent and no server is known of yet, by the name it will have. What another watch
// filter's manager works for may be in a project that this one's list is not of.
func (i *Inventory) expect(hosts []*host.Host, now time.Time) (expected expectation, orders map[string]*host.Host) {
	expected.returned, expected.deleted, expected.expendable = map[string]bool{}, map[string]bool{}, map[string]bool{}
	expected.others, expected.elsewhere = map[string]bool{}, map[string]bool{}
	orders = map[string]*host.Host{}
	for _, h := range hosts {
		if !i.obeys(h) {
			expected.others[h.Spec.ServerID] = true
			continue
		}
		if h.Spec.Order != nil {
			if h.Spec.Order.AttemptedAt != nil { // before, a server of the name is another's
				orders[h.Spec.Order.Name] = h
			}
			continue
		}
		expected.ids = append(expected.ids, h.Spec.ServerID)
		expected.elsewhere[h.Spec.ServerID] = host.Elsewhere(h, i.Project)
		returned := host.Returned(h, now)
		if returned {
			expected.returned[h.Spec.ServerID] = true
			expected.deleted[h.Spec.ServerID] = host.Deleted(h)
		}
		if returned || (h.Spec.Release != nil && !h.DeletionTimestamp.IsZero()) {
			expected.expendable[h.Spec.ServerID] = true
		}
	}
	slices.Sort(expected.ids)
	return expected, orders
}

// noteProject records on each Host that the list shows which project that is of. What
// cannot be written now is with the next list.
func (i *Inventory) noteProject(ctx context.Context, hosts []*host.Host, servers []cloud.Server) {
	listed := sets.New[string]()
	for _, server := range servers {
		listed.Insert(server.ID)
	}
	for _, h := range hosts {
		if !i.obeys(h) || !listed.Has(h.Spec.ServerID) || !host.NoteProject(h, i.Project) {
			continue
		}
		if err := i.Client.Update(ctx, h); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			ctrl.LoggerFrom(ctx).Info("The project of a host could not be recorded", "host", h.Name, "error", err.Error())
		}
	}
}

// otherProject is an error where Hosts of the zone are of another project than the list.
func (i *Inventory) otherProject(hosts []*host.Host, expected expectation) error {
	var found *host.OtherProjectError
	for _, h := range hosts {
		if !i.obeys(h) || !expected.elsewhere[h.Spec.ServerID] {
			continue
		}
		if found == nil {
			found = &host.OtherProjectError{Project: i.Project, Of: h.Annotations[host.ProjectAnnotation], Host: h.Name}
		}
		found.Hosts++
	}
	if found == nil {
		return nil
	}
	return found
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
		log.Info("Too many servers vanished at once to believe the list", "servers", now.Hosts, "missing", now.Missing, "expected", now.Expected)
	}
}

func (i *Inventory) create(ctx context.Context, zone, id string) error {
	h := host.New(zone, id, i.WatchFilter)
	host.NoteProject(h, i.Project)
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
		if h.Spec.Order == nil && i.obeys(h) && i.differs(h) {
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
	seen, known := i.readings.newest(h.Spec.Zone, h.Spec.ServerID)
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
