package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
)

// metrics of Machines. No label names a Machine.
type metrics struct {
	claims    *prometheus.CounterVec
	recovered map[host.Recovery]prometheus.Counter
	steps     *prometheus.HistogramVec
	failures  *prometheus.CounterVec
	readiness prometheus.Histogram
}

func newMetrics() *metrics {
	return &metrics{
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "macfleet_claims_total", Help: "Attempts to claim a host, by result.",
		}, []string{"result"}),
		recovered: map[host.Recovery]prometheus.Counter{host.RecoverReturn: recoveries(host.RecoverReturn), host.RecoverReinstall: recoveries(host.RecoverReinstall)},
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "macfleet_converge_step_duration_seconds", Help: "How long a step of bringing a Mac to its desired state took.",
			Buckets: []float64{.1, .5, 1, 2, 5, 10, 30, 60, 120, 300},
		}, []string{"step"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "macfleet_converge_failures_total", Help: "Failed pushes, by step and class of failure.",
		}, []string{"step", "class"}),
		readiness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "macfleet_time_to_node_ready_seconds", Help: "From the creation of a Machine to its Node being Ready.",
			Buckets: []float64{15, 30, 60, 120, 300, 600, 1200, 1800, 3600},
		}),
	}
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.claims, m.steps, m.failures, m.readiness} {
		if err := registerer.Register(c); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	for _, counter := range m.recovered {
		if err := registerer.Register(counter); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// recoveries counts one tier of recovery. Other controllers count others under
// the same name, which needs the same help and label.
func recoveries(tier host.Recovery) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "macfleet_recoveries_total", Help: "Acts of recovery that were begun, by tier.", ConstLabels: prometheus.Labels{"tier": string(tier)},
	})
}

func (m *metrics) recovery(r host.Recovery) { m.recovered[r].Inc() }

func (m *metrics) claim(result string) { m.claims.WithLabelValues(result).Inc() }

func (m *metrics) step(step string, took time.Duration) {
	m.steps.WithLabelValues(step).Observe(took.Seconds())
}

func (m *metrics) failure(f *push.Failure) { m.failures.WithLabelValues(f.Step, string(f.Class)).Inc() }

func (m *metrics) nodeReady(took time.Duration) { m.readiness.Observe(took.Seconds()) }

// machineCollector counts the Machines at each scrape, from the cache.
type machineCollector struct {
	reader    client.Reader
	desc      *prometheus.Desc
	lostSlots *prometheus.Desc
}

func newMachineCollector(reader client.Reader) *machineCollector {
	return &machineCollector{
		reader:    reader,
		desc:      prometheus.NewDesc("macfleet_machines", "Machines by fleet and phase.", []string{"fleet", "phase"}, nil),
		lostSlots: prometheus.NewDesc("macfleet_machines_lost_slots", "Machines whose Mac cannot use all its slots for guests, by fleet and reason.", []string{"fleet", "reason"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *machineCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.desc
	descs <- c.lostSlots
}

// Collect implements prometheus.Collector.
func (c *machineCollector) Collect(out chan<- prometheus.Metric) {
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := c.reader.List(context.Background(), list); err != nil {
		return
	}
	type group struct{ fleet, of string }
	counts, lost := map[group]int{}, map[group]int{}
	for i := range list.Items {
		m := &list.Items[i]
		fleet := machine.Snapshot{Machine: m}.Fleet()
		counts[group{fleet, m.Status.Phase}]++
		if c := conditions.Get(m, infrav1.SlotsHealthyCondition); c != nil && c.Status == metav1.ConditionFalse {
			lost[group{fleet, c.Reason}]++
		}
	}
	for g, n := range lost {
		out <- prometheus.MustNewConstMetric(c.lostSlots, prometheus.GaugeValue, float64(n), g.fleet, g.of)
	}
	for g, n := range counts {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), g.fleet, g.of)
	}
}

// Results of claims, as counted.
const (
	claimTaken    = "claimed"
	claimAgain    = "claimed_again"
	claimConflict = "conflict"
	claimLost     = "lost"
	claimNoHost   = "no_host"
)
