package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// metrics are those that are counted as things happen.
type metrics struct{ wipes prometheus.Histogram }

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	wipes, err := register(registry, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "macfleet_wipe_duration_seconds", Help: "Time from the request of a wipe until it was observed.",
		Buckets: []float64{1, 10, 60, 300, 600, 900, 1200, 1800, 2700, 5400},
	}))
	return &metrics{wipes}, err
}

func (m *metrics) wiped(took time.Duration) {
	if m != nil {
		m.wipes.Observe(took.Seconds())
	}
}

// measured counts the vendor calls of a Cloud in the registry.
func measured(c cloud.Cloud, registry prometheus.Registerer) (cloud.Cloud, error) {
	requests, err := register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "macfleet_vendor_requests_total", Help: "Calls to the vendor by name and result.",
	}, []string{"call", "result"}))
	if err != nil {
		return nil, err
	}
	return cloud.Observed(c, func(call string, _ time.Duration, err error) {
		requests.WithLabelValues(call, result(err)).Inc()
	}), nil
}

func result(err error) string {
	if err == nil {
		return "ok"
	}
	if kind := cloud.KindOf(err); kind != "" {
		return string(kind)
	}
	return "other"
}

// register returns the collector that is in the registry already, if there is one.
func register[C prometheus.Collector](registry prometheus.Registerer, c C) (C, error) {
	err := registry.Register(c)
	var known prometheus.AlreadyRegisteredError
	if errors.As(err, &known) {
		if same, ok := known.ExistingCollector.(C); ok {
			return same, nil
		}
	}
	if err != nil {
		return c, fmt.Errorf("registering metrics: %w", err)
	}
	return c, nil
}

// census counts the hosts when it is asked, so that no series outlives its host.
// Only the manager that leads counts, or sums would be too high.
type census struct {
	reader  client.Reader
	leading func() bool
	hosts   *prometheus.Desc
	orphans *prometheus.Desc
}

func newCensus(reader client.Reader, leading func() bool) *census {
	return &census{
		reader: reader, leading: leading,
		hosts: prometheus.NewDesc("macfleet_hosts", "Hosts by zone, type and phase.", []string{"zone", "type", "phase"}, nil),
		orphans: prometheus.NewDesc("scaleway_orphan_servers",
			"Servers that are neither in the pool, nor being adopted or released, nor matched by a live Machine; "+
				"kind stranded: claimed without a Machine, foreign: named by others, held: released but named by others, notwiped: in the pool but not clean.", []string{"zone", "kind"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *census) Describe(out chan<- *prometheus.Desc) {
	out <- c.hosts
	out <- c.orphans
}

// countDeadline bounds the list from the cache.
const countDeadline = 5 * time.Second

// Collect implements prometheus.Collector.
func (c *census) Collect(out chan<- prometheus.Metric) {
	if !c.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), countDeadline)
	defer cancel()
	list := &infrav1.ScalewayAppleSiliconHostList{}
	if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		out <- prometheus.NewInvalidMetric(c.hosts, fmt.Errorf("listing hosts: %w", err))
		return
	}
	hosts, orphans := count(list.Items)
	for labels, n := range hosts {
		out <- prometheus.MustNewConstMetric(c.hosts, prometheus.GaugeValue, n, labels[0], labels[1], labels[2])
	}
	for labels, n := range orphans {
		out <- prometheus.MustNewConstMetric(c.orphans, prometheus.GaugeValue, n, labels[0], labels[1])
	}
}

func count(list []infrav1.ScalewayAppleSiliconHost) (hosts map[[3]string]float64, orphans map[[2]string]float64) {
	hosts, orphans = map[[3]string]float64{}, map[[2]string]float64{}
	for i := range list {
		h := &list[i]
		hosts[[3]string{h.Spec.Zone, h.Status.Server.Type, string(h.Status.Phase)}]++
		// A zone that has hosts shows zeros: an alert needs a series to watch.
		orphans[[2]string{h.Spec.Zone, "stranded"}] += one(h.Status.Phase == infrav1.HostStranded)
		orphans[[2]string{h.Spec.Zone, "foreign"}] += one(h.Status.Phase == infrav1.HostForeign)
		orphans[[2]string{h.Spec.Zone, "notwiped"}] += one(h.Status.Phase == infrav1.HostDirty)
		orphans[[2]string{h.Spec.Zone, "held"}] += one(h.Spec.Release != nil && named(h))
	}
	return hosts, orphans
}

// named: somebody else was seen to have named the server.
func named(h *infrav1.ScalewayAppleSiliconHost) bool {
	c := meta.FindStatusCondition(h.Status.Conditions, infrav1.NameInSyncCondition)
	return c != nil && c.Reason == infrav1.ReasonChangedByOther
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
