package converge

import (
	"context"
	"errors"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// Leave takes back what joining gave: it stops the agent and removes its
// launchd job, the bootstrap token, the join permit and the client certificates.
// Guests, hostd with its firewall, and the journal stay; a wipe follows. A step that fails does not keep
// the others from being tried.
func Leave(ctx context.Context, o Options) document.Report {
	r := o.newReport(ctx, document.VerbLeave)
	unlock, err := o.lock(ctx)
	if err != nil {
		r.Steps = []document.StepReport{failedStep("lock", err)}
		return o.seal(r)
	}
	defer func() { _ = unlock.Close() }()
	t := &target{Options: o, report: &r}
	t.leave(ctx)
	return o.keep(ctx, o.seal(r))
}

func (t *target) leave(ctx context.Context) {
	t.report.Epoch = t.journaled().Epoch
	for _, s := range t.leaveSteps() {
		started := t.Mac.Clock.Now()
		step := t.runStep(ctx, s)
		step.Millis = t.Mac.Clock.Now().Sub(started).Milliseconds()
		t.report.Steps = append(t.report.Steps, step)
	}
}

func (t *target) leaveSteps() []step {
	return []step{
		t.stopAgent(),
		t.removal("job", document.AgentPlist),
		t.removal("credentials", document.BootstrapKubeconfig, document.JoinPermitFile),
		t.removal("certificates", document.AgentCertDir),
	}
}

func (t *target) stopAgent() step {
	return step{
		name: "agent",
		check: func(ctx context.Context) ([]string, error) {
			_, loaded, err := t.printJob(ctx, agentJob())
			if err != nil || !loaded {
				return nil, err
			}
			return []string{"the agent is loaded"}, nil
		},
		act: func(ctx context.Context) error { return t.unload(ctx, agentJob()) },
	}
}

func (t *target) removal(name string, paths ...string) step {
	return step{
		name: name,
		check: func(ctx context.Context) ([]string, error) {
			var all []string
			for _, p := range paths {
				there, err := t.exists(ctx, p)
				if err != nil {
					return nil, fmt.Errorf("looking at %s: %w", p, err)
				}
				if there {
					all = append(all, p+" is there")
				}
			}
			return all, nil
		},
		act: func(context.Context) error { return t.remove(paths...) },
	}
}

// remove removes all of them, also when one cannot be.
func (t *target) remove(paths ...string) error {
	var errs []error
	for _, p := range paths {
		if err := t.Mac.Files.Remove(p); err != nil {
			errs = append(errs, fmt.Errorf("removing %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}
