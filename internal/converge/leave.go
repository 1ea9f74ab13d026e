package converge

import (
	"context"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// leave takes back what joining gave: it stops the agent and removes its
// launchd job, the bootstrap token, the join permit and the client certificates.
// Guests, hostd with its firewall, and the disk marker stay; a wipe follows. A step
// that fails does not keep the others from being tried.
func leave(ctx context.Context, o Options) document.Report {
	r := o.newReport(ctx, document.VerbLeave)
	return o.locked(ctx, &r, func() bool { o.leave(ctx, &r); return true })
}

func (o Options) leave(ctx context.Context, r *document.Report) {
	r.Epoch = markedAs(o.Mac.Files).Epoch
	e := o.env(document.Desired{}, r)
	for _, s := range []step.Step{
		stopAgent(launchd.Control{Mac: o.Mac}),
		removal(e, "job", document.AgentPlist),
		removal(e, "credentials", document.BootstrapKubeconfig, document.JoinPermitFile),
		removal(e, "certificates", document.AgentCertDir),
	} {
		r.Steps = append(r.Steps, e.RunOne(ctx, s))
	}
}

func stopAgent(control launchd.Control) step.Step {
	return step.Step{
		Name: "agent",
		Check: func(ctx context.Context) ([]string, error) {
			_, loaded, err := control.Print(ctx, document.AgentLabel)
			if err != nil || !loaded {
				return nil, err
			}
			return []string{"the agent is loaded"}, nil
		},
		Act: func(ctx context.Context) error { return control.Unload(ctx, launchd.AgentJob()) },
	}
}

func removal(e *step.Env, name string, paths ...string) step.Step {
	return step.Step{
		Name:  name,
		Check: func(ctx context.Context) ([]string, error) { return e.There(ctx, paths...) },
		Act:   func(context.Context) error { return e.Remove(paths...) },
	}
}
