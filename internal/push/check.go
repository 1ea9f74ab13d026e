package push

import (
	"context"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// Check asks a Mac which steps of converge would change something, and changes
// nothing.
func (p *Pusher) Check(ctx context.Context, target Target, desired document.Desired) (_ []string, err error) {
	ctx, end := p.Tracer.Start(ctx, "check", "server.address", target.Address)
	defer func() { end(err) }()
	mac, err := p.Macs.Dial(ctx, target)
	if err != nil {
		return nil, err
	}
	defer mac.Close() //nolint:errcheck // it was only looked at
	report, err := mac.Plan(ctx, desired)
	if steps := differing(report); len(steps) > 0 {
		return steps, nil
	}
	return nil, err
}

// differing are the steps that would change something, or that cannot even tell.
// What only waits for its time is as it should be for now.
func differing(report document.Report) []string {
	var steps []string
	for _, step := range report.Steps {
		failed := step.Outcome == document.Failed && step.Class != document.Wait && step.Class != document.Retry
		if step.Outcome == document.Planned || failed {
			steps = append(steps, step.Name)
		}
	}
	return steps
}

// Leave has a Mac stop its agent and forget its credentials.
func (p *Pusher) Leave(ctx context.Context, target Target, signer *document.Signer) (err error) {
	ctx, end := p.Tracer.Start(ctx, "leave", "server.address", target.Address)
	defer func() { end(err) }()
	mac, err := p.Macs.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer mac.Close() //nolint:errcheck // nothing follows
	return mac.Leave(ctx, signer)
}
