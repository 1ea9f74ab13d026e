package machine

import (
	"fmt"
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

// Results of claims, as counted.
const (
	claimTaken    = "claimed"
	claimAgain    = "claimed_again"
	claimConflict = "conflict"
	claimLost     = "lost"
	claimNoHost   = "no_host"
)
