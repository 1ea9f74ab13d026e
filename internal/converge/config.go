package converge

import (
	"context"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// config writes the agent's configuration.
type config struct{ *step.Env }

func (c config) step() step.Step {
	wanted := func() (step.File, error) {
		data, err := document.EncodeConfig(c.Desired)
		return step.File{Path: document.ConfigFile, Data: data, Attr: step.StaffAttr(step.Root, 0o640)}, err
	}
	return step.Step{
		Name:  "config",
		About: "Writes " + document.ConfigFile + ", what the agent and hostd read at their start.",
		Undo:  "Remove " + document.ConfigFile + "; both jobs stop working without it.",
		Check: func(ctx context.Context) ([]string, error) {
			f, err := wanted()
			if err != nil {
				return nil, err
			}
			return c.Differing(ctx, f)
		},
		Act: func(ctx context.Context) error {
			f, err := wanted()
			if err != nil {
				return err
			}
			if err := launchd.RequireRestarts(ctx, c.Mac.Files); err != nil {
				return err
			}
			return step.Write(ctx, c.Mac.Files, f)
		},
	}
}
