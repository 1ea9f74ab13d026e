package main

import (
	"context"
	"errors"
	"net/url"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/macfleet/macfleet/internal/tracing"
)

// lastSpans bounds sending what is left when the manager ends.
const lastSpans = 5 * time.Second

// checkTracing: an endpoint that is none would be found out by nobody, as spans that are not sent are only logged.
func (s *settings) checkTracing() error {
	if s.tracingEndpoint == "" {
		return nil
	}
	endpoint, err := url.Parse(s.tracingEndpoint)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return errors.New("--tracing-endpoint must be the URL of an OTLP collector's gRPC port, such as http://collector:4317")
	}
	return nil
}

// tracer makes the spans that --tracing-endpoint asks for; stop sends the last of them.
func (s *settings) tracer(ctx context.Context) (t tracing.Tracer, stop func(), err error) {
	if s.tracingEndpoint == "" {
		return tracing.Tracer{}, func() {}, nil
	}
	t, shutdown, err := tracing.New(ctx, s.tracingEndpoint, version)
	if err != nil {
		return tracing.Tracer{}, nil, wrong("--tracing-endpoint: %w", err)
	}
	return t, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := shutdown(ctx); err != nil {
			ctrl.Log.Info("The last spans were not sent", "error", err.Error())
		}
	}, nil
}
