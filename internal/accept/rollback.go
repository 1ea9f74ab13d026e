package accept

import (
	"context"
	"errors"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
)

// noLabel is the value of no label of a Node: an agent whose configuration has it ends as
// soon as it starts. converge does not look at labels, so that its first start is what fails.
const noLabel = "is no value of a label"

// rollback puts the other release beside, with a configuration with which its agent does not
// start. The release's own converge should go back to the build and configuration before it.
func rollback(ctx context.Context, t *trial) error {
	if _, err := t.session.Receive(ctx, t.Next); err != nil {
		return err
	}
	d := t.desired
	d.Agent.SHA256 = t.Next.SHA256
	d.Node.Labels = map[string]string{"macfleet.dev/accept": noLabel}
	report, err := t.session.Converge(ctx, t.Next.SHA256, d, t.signer)
	t.steps("", report)
	if _, failed := errors.AsType[*remote.Failed](err); err != nil && !failed {
		return err
	}
	back := report.RolledBack == t.Next.SHA256
	t.add(Row{ID: "back", Asked: "Does converge go back by itself from a release that does not start?", Seen: []string{yesNo(back)}})
	if !back {
		return errors.New("the Mac did not go back to the release before")
	}
	return runsAgain(ctx, t)
}

// runsAgain looks whether the first build runs as before.
func runsAgain(ctx context.Context, t *trial) error {
	t.hangUp()
	if err := t.connect(ctx); err != nil {
		return err
	}
	t.add(Row{ID: "current", Asked: "Is the release before the current one again?", Seen: []string{yesNo(t.facts.CurrentAgent == t.Agent.SHA256)}})
	report, err := t.session.ConvergeInstalled(ctx, t.desired, t.signer)
	var changed []string
	for _, s := range report.Steps {
		if s.Outcome != document.Unchanged {
			changed = append(changed, s.Name)
		}
	}
	t.add(Row{ID: "as-before", Asked: "Which steps of converge does it find otherwise than before?", Seen: orNone(changed)})
	return err
}
