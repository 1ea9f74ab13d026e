package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/macfleet/macfleet/internal/cloud"
)

// metrics are those that are counted as things happen.
type metrics struct {
	wipes     prometheus.Histogram
	reclaimed prometheus.Counter
	reboots   prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	wipes, err1 := register(registry, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "macfleet_wipe_duration_seconds", Help: "Time from the request of a wipe until it was observed.",
		Buckets: []float64{1, 10, 60, 300, 600, 900, 1200, 1800, 2700, 5400},
	}))
	reclaimed, err2 := register(registry, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "macfleet_orphans_reclaimed_total", Help: "Stranded hosts whose release the sweep recorded.",
	}))
	// The other tiers are the Machine controller's: same name, help and label.
	reboots, err3 := register(registry, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "macfleet_recoveries_total", Help: "Acts of recovery that were begun, by tier.", ConstLabels: prometheus.Labels{"tier": "reboot"},
	}))
	return &metrics{wipes, reclaimed, reboots}, errors.Join(err1, err2, err3)
}

// Measured counts and times the vendor calls of a Cloud in the registry.
func Measured(c cloud.Cloud, registry prometheus.Registerer) (cloud.Cloud, error) {
	requests, err := register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "macfleet_vendor_requests_total", Help: "Calls to the vendor by name and result.",
	}, []string{"call", "result"}))
	if err != nil {
		return nil, err
	}
	took, err := register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "macfleet_vendor_request_duration_seconds", Help: "How long calls to the vendor took, by name.",
		Buckets: []float64{.05, .1, .25, .5, 1, 2, 5, 10, 30},
	}, []string{"call"}))
	if err != nil {
		return nil, err
	}
	return cloud.Observed(c, func(call string, duration time.Duration, err error) {
		requests.WithLabelValues(call, result(err)).Inc()
		took.WithLabelValues(call).Observe(duration.Seconds())
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
// Without a registry it is counted for nobody.
func register[C prometheus.Collector](registry prometheus.Registerer, c C) (C, error) {
	if registry == nil {
		return c, nil
	}
	err := registry.Register(c)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := known.ExistingCollector.(C); ok {
			return same, nil
		}
	}
	if err != nil {
		return c, fmt.Errorf("registering metrics: %w", err)
	}
	return c, nil
}
