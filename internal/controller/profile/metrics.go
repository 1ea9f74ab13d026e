package profile

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/rollout"
)

// metrics of rollouts. No label names a Machine.
type metrics struct {
	machines *prometheus.GaugeVec
	halted   *prometheus.GaugeVec
	turns    *prometheus.CounterVec
}

// Kinds of turns.
const (
	permitUpdates = "update"
	permitMends   = "mend"
)

func newMetrics() *metrics {
	labels := []string{"namespace", "profile"}
	m := &metrics{
		machines: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "macfleet_rollout_machines", Help: "Macs of a profile that were bootstrapped, by how they do in its rollout.",
		}, append(labels, "state")),
		halted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "macfleet_rollout_halted", Help: "1 while the rollout of a profile has stopped by itself.",
		}, labels),
		turns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "macfleet_rollout_turns_total", Help: "Turns that began: to bring a Mac to another revision, or to mend it.",
		}, []string{"kind"}),
	}
	// Both show 0 from the start: of a series that begins at 1 no increase is seen.
	m.turns.WithLabelValues(permitUpdates)
	m.turns.WithLabelValues(permitMends)
	return m
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.machines, m.halted, m.turns} {
		if err := registerer.Register(c); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

func (m *metrics) show(profile types.NamespacedName, s survey, decision rollout.Decision) {
	if len(s.macs) == 0 {
		m.forget(profile)
		return
	}
	for _, state := range rollout.States() {
		m.machines.WithLabelValues(profile.Namespace, profile.Name, string(state)).Set(float64(decision.States[state]))
	}
	halted := 0.0
	if decision.Halted != "" {
		halted = 1
	}
	m.halted.WithLabelValues(profile.Namespace, profile.Name).Set(halted)
}

// forget drops the series of a profile that has no Macs.
func (m *metrics) forget(profile types.NamespacedName) {
	labels := prometheus.Labels{"namespace": profile.Namespace, "profile": profile.Name}
	m.machines.DeletePartialMatch(labels)
	m.halted.DeletePartialMatch(labels)
}

func (m *metrics) permit(mends bool) {
	kind := permitUpdates
	if mends {
		kind = permitMends
	}
	m.turns.WithLabelValues(kind).Inc()
}
