package host

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// collector counts the hosts when it is asked, so that no series outlives its host.
// Only the manager that leads counts, or sums would be too high.
type collector struct {
	reader  client.Reader
	leading func() bool
	sweep   *Sweep
	clock   clock.PassiveClock
}

// gauges are the values of one collection.
type gauges struct{ hosts, orphans, blocked, billed *prometheus.GaugeVec }

func newGauges() gauges {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	return gauges{
		hosts: gauge("macfleet_hosts", "Hosts by zone, type and phase.", "zone", "type", "phase"),
		orphans: gauge("scaleway_orphan_servers",
			"Servers that are neither in the pool, nor being adopted or released, nor matched by a live Machine; "+
				"kind stranded: once ours, foreign: named by others.", "zone", "kind"),
		blocked: gauge("macfleet_blocked_hosts",
			"Hosts on their way into the pool that go no further without a person; reason notwiped: in the pool by name "+
				"but not clean, held: released but renamed by others, unnamed: wiped a while ago but not named into the pool, "+
				"adoption: to be adopted and something is in the way.", "zone", "reason"),
		billed: gauge("macfleet_host_billed_until_seconds",
			"Unix time until which the vendor bills at least, the latest of the hosts of a zone and type.", "zone", "type"),
	}
}

func (g gauges) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{g.hosts, g.orphans, g.blocked, g.billed}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, gauge := range newGauges().all() {
		gauge.Describe(out)
	}
}

// countDeadline bounds the lists from the cache.
const countDeadline = 5 * time.Second

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	if !c.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), countDeadline)
	defer cancel()
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	for _, list := range []client.ObjectList{hosts, machines} {
		if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			err = fmt.Errorf("listing from the cache: %w", err)
			out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
			return
		}
	}
	owners := []host.Owners{host.OwnersOf(machines.Items), c.sweep.foreignOwners()}
	for _, gauge := range count(hosts.Items, owners, c.sweep.naming(machines.Items), c.clock.Now()).all() {
		gauge.Collect(out)
	}
}

func count(hosts []infrav1.ScalewayAppleSiliconHost, owners []host.Owners, naming host.Naming, now time.Time) gauges {
	g, billed := newGauges(), map[[2]string]float64{}
	for i := range hosts {
		h := &hosts[i]
		zone, kind := h.Spec.Zone, h.Status.Server.Type
		g.hosts.WithLabelValues(zone, kind, string(h.Status.Phase)).Inc()
		stray := strayKind(h, owners, naming)
		// A zone that has hosts shows zeros: an alert needs a series to watch.
		g.orphans.WithLabelValues(zone, "stranded").Add(toFloat(stray == host.StrandedStray))
		g.orphans.WithLabelValues(zone, "foreign").Add(toFloat(stray == host.ForeignStray))
		g.blocked.WithLabelValues(zone, "notwiped").Add(toFloat(stray == "" && h.Status.Phase == infrav1.HostDirty && !host.AwaitsFirstWipe(h)))
		g.blocked.WithLabelValues(zone, "held").Add(toFloat(host.ReleaseHeld(h)))
		g.blocked.WithLabelValues(zone, "unnamed").Add(toFloat(host.Unnamed(h, now)))
		waits := h.Spec.Adopt != nil && meta.IsStatusConditionFalse(h.Status.Conditions, host.AdoptedCondition)
		g.blocked.WithLabelValues(zone, "adoption").Add(toFloat(waits))
		if until := h.Status.Server.DeletableAt; until != nil {
			billed[[2]string{zone, kind}] = max(billed[[2]string{zone, kind}], float64(until.Unix()))
			g.billed.WithLabelValues(zone, kind).Set(billed[[2]string{zone, kind}])
		}
	}
	return g
}

// strayKind is a host's kind of stray, unless any of the owners has it. One that some of
// them hold for foreign, by a Machine of its name, is not stranded for the others.
func strayKind(h *infrav1.ScalewayAppleSiliconHost, owners []host.Owners, naming host.Naming) (kind host.StrayKind) {
	for _, o := range owners {
		switch of, _ := host.Stray(h, o, naming); {
		case of == "":
			return ""
		case kind != host.ForeignStray:
			kind = of
		}
	}
	return kind
}

func toFloat(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
