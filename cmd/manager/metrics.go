package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"

	metricsfilters "sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// defaultMetricsAddress is the port that Cluster API's own providers serve theirs at.
const defaultMetricsAddress = ":8443"

// The files of a mounted Secret of the type kubernetes.io/tls.
const (
	metricsCert = "tls.crt"
	metricsKey  = "tls.key"
)

// Who scrapes shows a token, which the API server judges: it must be allowed to get
// the non-resource URL /metrics.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// metrics says how metrics are served: over TLS, to whoever the API server lets get
// /metrics, unless --insecure-metrics.
func (s *settings) metrics() metricsserver.Options {
	if s.insecureMetrics {
		return metricsserver.Options{BindAddress: s.metricsAddress}
	}
	return metricsserver.Options{
		BindAddress:    s.metricsAddress,
		ExtraHandlers:  s.profiles(),
		SecureServing:  true,
		FilterProvider: metricsfilters.WithAuthenticationAndAuthorization,
		CertDir:        s.metricsCertDir, CertName: metricsCert, KeyName: metricsKey,
		TLSOpts: []func(*tls.Config){hardenTLS},
	}
}

// profiles are Go's own, for whoever the API server lets get their paths. The command line is none of them.
func (s *settings) profiles() map[string]http.Handler {
	if !s.profiling {
		return nil
	}
	return map[string]http.Handler{
		"/debug/pprof/":        http.HandlerFunc(pprof.Index), // heap, goroutine and so on, too
		"/debug/pprof/cmdline": http.NotFoundHandler(),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}

// hardenTLS leaves out HTTP/2, whose streams cost a server more than who opens and
// resets them.
func hardenTLS(c *tls.Config) {
	c.MinVersion = tls.VersionTLS12
	c.NextProtos = []string{"http/1.1"}
}

// checkMetrics: a certificate that is named must be there. Without it one would be
// made, which nobody can verify. Profiles show memory, and are for who is let see it.
func (s *settings) checkMetrics() error {
	if s.profiling && s.insecureMetrics {
		return errors.New("--profiling: --insecure-metrics asks nobody for a token; give one of the two")
	}
	if s.metricsCertDir == "" {
		return nil
	}
	if s.insecureMetrics {
		return errors.New("--metrics-cert-dir: --insecure-metrics serves them without TLS; give one of the two")
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(s.metricsCertDir, metricsCert), filepath.Join(s.metricsCertDir, metricsKey)); err != nil {
		if os.IsNotExist(err) {
			return fmt.Errorf("--metrics-cert-dir: %s and %s must be in %s: %w", metricsCert, metricsKey, s.metricsCertDir, err)
		}
		return fmt.Errorf("--metrics-cert-dir: %s and %s in %s are no certificate with its key: %w", metricsCert, metricsKey, s.metricsCertDir, err)
	}
	return nil
}
