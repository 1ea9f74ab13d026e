package machine

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/push"
)

// metrics of Machines. No label names a Machine.
type metrics struct {
	claims    *prometheus.CounterVec
	recovered map[host.Recovery]prometheus.Counter
	steps     *prometheus.HistogramVec
	failures  *prometheus.CounterVec
	readiness prometheus.Histogram

	naming sync.Mutex
	// named are the steps that have series.
	named map[string]bool
}

// maxSteps is how many names of steps have series: a Mac, which may be hostile, names its own.
const maxSteps = 128

func newMetrics() *metrics {
	m := &metrics{
		named: map[string]bool{},
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "macfleet_claims_total", Help: "Attempts to claim a host, by result.",
		}, []string{"result"}),
		recovered: map[host.Recovery]prometheus.Counter{host.RecoverReturn: recoveries(host.RecoverReturn), host.RecoverReinstall: recoveries(host.RecoverReinstall)},
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "macfleet_converge_step_duration_seconds", Help: "How long a step of bringing a Mac to its desired state took.",
			Buckets: []float64{.1, .5, 1, 5, 10, 30, 60, 120, 240, 480, 900, 1800}, // the step converge may hold a reboot
		}, []string{"step"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "macfleet_converge_failures_total", Help: "Failed pushes, by step and class of failure.",
		}, []string{"step", "class"}),
		readiness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "macfleet_time_to_node_ready_seconds", Help: "For how long a Machine had not been Ready when its Node became so.",
			Buckets: []float64{15, 30, 60, 120, 300, 600, 1200, 1800, 3600},
		}),
	}
	for _, step := range push.Steps() {
		m.named[step] = true // the manager's own have their series whatever a Mac names
	}
	// What has counted nothing yet shows 0: of a series that begins at 1 no increase is seen.
	for _, result := range []string{claimTaken, claimAgain, claimConflict, claimLost, claimNoHost} {
		m.claims.WithLabelValues(result)
	}
	return m
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
	m.steps.WithLabelValues(m.label(step)).Observe(max(0, took).Seconds())
}

func (m *metrics) failure(f *push.Failure) {
	m.failures.WithLabelValues(m.label(f.Step), string(f.Class)).Inc()
}

// label is a step's name, as long as there are few.
func (m *metrics) label(step string) string {
	m.naming.Lock()
	defer m.naming.Unlock()
	if !m.named[step] && len(m.named) >= maxSteps {
		return "other"
	}
	m.named[step] = true
	return step
}

func (m *metrics) nodeReady(took time.Duration) { m.readiness.Observe(took.Seconds()) }

// Results of claims, as counted.
const (
	claimTaken    = "claimed"
	claimAgain    = "claimed_again"
	claimConflict = "conflict"
	claimLost     = "lost"
	claimNoHost   = "no_host"
)
