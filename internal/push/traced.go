package push

import (
	"context"
	"time"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/tracing"
)

// Traced makes spans of what is done over SSH, and of the steps that a Mac reports.
func Traced(inner Dialer, tracer tracing.Tracer) Dialer { return traced{inner, tracer} }

type traced struct {
	inner  Dialer
	tracer tracing.Tracer
}

// Dial implements Dialer.
func (t traced) Dial(ctx context.Context, target Target) (Mac, error) {
	ctx, end := t.tracer.Start(ctx, "ssh dial", "server.address", target.Address)
	mac, err := t.inner.Dial(ctx, target)
	end(err)
	if err != nil {
		return mac, err
	}
	return tracedMac{mac, t.tracer}, nil
}

// tracedMac is a Mac whose every use is a span.
type tracedMac struct {
	Mac
	tracer tracing.Tracer
}

func (m tracedMac) Probe(ctx context.Context) (Facts, error) {
	ctx, end := m.tracer.Start(ctx, "ssh probe")
	facts, err := m.Mac.Probe(ctx)
	end(err)
	return facts, err
}

func (m tracedMac) Grant(ctx context.Context, password cloud.Password) error {
	ctx, end := m.tracer.Start(ctx, "ssh grant")
	err := m.Mac.Grant(ctx, password)
	end(err)
	return err
}

func (m tracedMac) Receive(ctx context.Context, agent Agent) error {
	ctx, end := m.tracer.Start(ctx, "ssh receive", "agent.version", agent.Version)
	err := m.Mac.Receive(ctx, agent)
	end(err)
	return err
}

func (m tracedMac) Converge(ctx context.Context, desired document.Desired, signer *document.Signer) (document.Report, error) {
	return m.reported(ctx, "ssh converge", func(ctx context.Context) (document.Report, error) { return m.Mac.Converge(ctx, desired, signer) })
}

func (m tracedMac) Plan(ctx context.Context, desired document.Desired) (document.Report, error) {
	return m.reported(ctx, "ssh plan", func(ctx context.Context) (document.Report, error) { return m.Mac.Plan(ctx, desired) })
}

// reported is a run of the agent, with the steps that it reports below it.
func (m tracedMac) reported(ctx context.Context, name string, act func(context.Context) (document.Report, error)) (document.Report, error) {
	ctx, end := m.tracer.Start(ctx, name)
	report, err := act(ctx)
	var steps []tracing.Step
	for _, s := range report.Steps {
		step := tracing.Step{Name: "mac/" + s.Name, Took: time.Duration(s.Millis) * time.Millisecond}
		if s.Outcome == document.Failed {
			step.Failed = string(s.Class)
		}
		steps = append(steps, step)
	}
	m.tracer.Past(ctx, steps)
	end(err)
	return report, err
}

func (m tracedMac) Leave(ctx context.Context, signer *document.Signer) error {
	ctx, end := m.tracer.Start(ctx, "ssh leave")
	err := m.Mac.Leave(ctx, signer)
	end(err)
	return err
}
