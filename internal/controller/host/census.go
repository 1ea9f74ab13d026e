package host

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// census counts the hosts when it is asked, so that no series outlives its host.
// Only the manager that leads counts, or sums would be too high.
type census struct {
	reader  client.Reader
	leading func() bool
	sweep   *Sweep
	hosts   *prometheus.Desc
	orphans *prometheus.Desc
	blocked *prometheus.Desc
	billed  *prometheus.Desc
}

func newCensus(reader client.Reader, leading func() bool, sweep *Sweep) *census {
	return &census{
		reader: reader, leading: leading, sweep: sweep,
		hosts: prometheus.NewDesc("macfleet_hosts", "Hosts by zone, type and phase.", []string{"zone", "type", "phase"}, nil),
		orphans: prometheus.NewDesc("scaleway_orphan_servers",
			"Servers that are neither in the pool, nor being adopted or released, nor matched by a live Machine; "+
				"kind stranded: once ours, foreign: named by others.", []string{"zone", "kind"}, nil),
		blocked: prometheus.NewDesc("macfleet_blocked_hosts",
			"Hosts on their way back to the pool that go no further without a person; "+
				"reason notwiped: in the pool by name but not clean, held: released but renamed by others.", []string{"zone", "reason"}, nil),
		billed: prometheus.NewDesc("macfleet_host_billed_until_seconds",
			"Unix time until which the vendor bills at least, the latest of the hosts of a zone and type.", []string{"zone", "type"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *census) Describe(out chan<- *prometheus.Desc) {
	out <- c.hosts
	out <- c.orphans
	out <- c.blocked
	out <- c.billed
}

// countDeadline bounds the lists from the cache.
const countDeadline = 5 * time.Second

// Collect implements prometheus.Collector.
func (c *census) Collect(out chan<- prometheus.Metric) {
	if !c.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), countDeadline)
	defer cancel()
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	for _, list := range []client.ObjectList{hosts, machines} {
		if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			out <- prometheus.NewInvalidMetric(c.hosts, fmt.Errorf("listing from the cache: %w", err))
			return
		}
	}
	owners := []host.Owners{host.OwnersOf(machines.Items), c.sweep.foreignOwners()}
	counted := count(hosts.Items, owners, c.sweep.naming(machines.Items))
	for labels, n := range counted.hosts {
		out <- prometheus.MustNewConstMetric(c.hosts, prometheus.GaugeValue, n, labels[0], labels[1], labels[2])
	}
	for labels, n := range counted.orphans {
		out <- prometheus.MustNewConstMetric(c.orphans, prometheus.GaugeValue, n, labels[0], labels[1])
	}
	for labels, n := range counted.blocked {
		out <- prometheus.MustNewConstMetric(c.blocked, prometheus.GaugeValue, n, labels[0], labels[1])
	}
	for labels, until := range counted.billed {
		out <- prometheus.MustNewConstMetric(c.billed, prometheus.GaugeValue, until, labels[0], labels[1])
	}
}

// counts are the values of the census by their labels.
type counts struct {
	hosts   map[[3]string]float64 // zone, type, phase
	orphans map[[2]string]float64 // zone, kind
	blocked map[[2]string]float64 // zone, reason
	billed  map[[2]string]float64 // zone, type
}

func count(hosts []infrav1.ScalewayAppleSiliconHost, owners []host.Owners, naming host.Naming) counts {
	c := counts{map[[3]string]float64{}, map[[2]string]float64{}, map[[2]string]float64{}, map[[2]string]float64{}}
	for i := range hosts {
		h := &hosts[i]
		zone, kind := h.Spec.Zone, h.Status.Server.Type
		c.hosts[[3]string{zone, kind, string(h.Status.Phase)}]++
		stray := strayOf(h, owners, naming)
		// A zone that has hosts shows zeros: an alert needs a series to watch.
		c.orphans[[2]string{zone, "stranded"}] += one(stray == host.StrandedStray)
		c.orphans[[2]string{zone, "foreign"}] += one(stray == host.ForeignStray)
		c.blocked[[2]string{zone, "notwiped"}] += one(stray == "" && h.Status.Phase == infrav1.HostDirty)
		c.blocked[[2]string{zone, "held"}] += one(h.Spec.Release != nil && host.ChangedByOther(h))
		if until := h.Status.Server.DeletableAt; until != nil {
			c.billed[[2]string{zone, kind}] = max(c.billed[[2]string{zone, kind}], float64(until.Unix()))
		}
	}
	return c
}

// strayOf is a host's kind of stray, unless any of the owners has it.
func strayOf(h *infrav1.ScalewayAppleSiliconHost, owners []host.Owners, naming host.Naming) (kind host.StrayKind) {
	for _, o := range owners {
		if kind, _ = host.Stray(h, o, naming); kind == "" {
			return ""
		}
	}
	return kind
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
