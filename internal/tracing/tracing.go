// Package tracing makes OpenTelemetry's spans of what the manager waits for: calls to the vendor, SSH, and the steps
// on a Mac. Who uses it sees a Tracer alone, whose zero value makes none. No span carries a secret: its attributes
// are names, and its status is what conditions and events say, too.
package tracing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Service is what spans say they come from, unless OTEL_SERVICE_NAME says otherwise.
const Service = "macfleet-manager"

// Tracer makes spans.
type Tracer struct{ tracer trace.Tracer }

// New makes a Tracer that exports to an OTLP collector over gRPC, such as http://collector:4317; OpenTelemetry's
// variables of the environment say the rest. Stop sends what is left.
func New(ctx context.Context, endpoint, version string) (t Tracer, stop func(context.Context) error, err error) {
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return Tracer{}, nil, fmt.Errorf("exporting spans: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", Service), attribute.String("service.version", version)),
		resource.WithFromEnv()) // which wins
	if err != nil {
		return Tracer{}, nil, fmt.Errorf("describing the source of spans: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return Tracer{provider.Tracer("github.com/macfleet/macfleet")}, provider.Shutdown, nil
}

// Start begins a span below that of the context; end says how it went. Attributes are keys and values in turn.
func (t Tracer) Start(ctx context.Context, name string, attributes ...string) (_ context.Context, end func(error)) {
	if t.tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := t.tracer.Start(below(ctx), name, trace.WithAttributes(pairs(attributes)...))
	return ctx, func(err error) { finish(span, err) }
}

// Call is Start for calls to the vendor.
func (t Tracer) Call(ctx context.Context, call string) (context.Context, func(error)) {
	return t.Start(ctx, "vendor "+call)
}

func finish(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

func pairs(attributes []string) []attribute.KeyValue {
	var all []attribute.KeyValue
	for i := 1; i < len(attributes); i += 2 {
		all = append(all, attribute.String(attributes[i-1], attributes[i]))
	}
	return all
}

// Step is something that is over.
type Step struct {
	Name string
	Took time.Duration
	// Failed is why it failed; empty: it did not.
	Failed string
}

// Past makes spans of steps that were done one after the other, the last of which ended just now.
func (t Tracer) Past(ctx context.Context, steps []Step) {
	if t.tracer == nil {
		return
	}
	at := time.Now()
	for _, step := range steps {
		at = at.Add(-step.Took)
	}
	for _, step := range steps {
		_, span := t.tracer.Start(ctx, step.Name, trace.WithTimestamp(at))
		if step.Failed != "" {
			span.SetStatus(codes.Error, step.Failed)
		}
		at = at.Add(step.Took)
		span.End(trace.WithTimestamp(at))
	}
}

// Reconciler makes a span of each reconcile that makes others: those that find nothing to do make none.
func (t Tracer) Reconciler(name string, inner reconcile.Reconciler) reconcile.Reconciler {
	if t.tracer == nil {
		return inner
	}
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		r := &root{tracer: t.tracer, name: "reconcile " + name, object: request.String(), began: time.Now()}
		result, err := inner.Reconcile(context.WithValue(ctx, rootKey{}, r), request)
		r.finish(err)
		return result, err
	})
}

// root is a span that is begun with the first below it.
type root struct {
	tracer       trace.Tracer
	name, object string
	began        time.Time

	mu   sync.Mutex
	span trace.Span
}

type rootKey struct{}

// below is the context in which a span begins: that of the root, where there is none between.
func below(ctx context.Context) context.Context {
	r, is := ctx.Value(rootKey{}).(*root)
	if !is || trace.SpanFromContext(ctx).SpanContext().IsValid() {
		return ctx
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.span == nil {
		_, r.span = r.tracer.Start(ctx, r.name, trace.WithTimestamp(r.began), trace.WithAttributes(attribute.String("object", r.object)))
	}
	return trace.ContextWithSpan(ctx, r.span)
}

func (r *root) finish(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.span != nil {
		finish(r.span, err)
	}
}
