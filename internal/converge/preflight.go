package converge

import (
	"context"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// MinFree is what must be free on the disk before anything is put on it: one
// guest's image, compressed, and room to work.
const MinFree = 20e9

// preflight refuses a machine that can never be a node, before it is touched.
type preflight struct{ *step.Env }

func (p preflight) step() step.Step {
	return step.Step{
		Name:  "fitness",
		About: "Looks whether the machine can be a node: a Mac with Apple silicon and no virtual machine, FileVault off, 20 GB free. It changes nothing.",
		Undo:  "There is nothing to undo.",
		Check: func(ctx context.Context) ([]string, error) {
			for _, fit := range []func(context.Context) error{p.requireAppleSilicon, p.RequireUnlockedDisk, p.requireFreeDisk} {
				if err := fit(ctx); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
	}
}

func (p preflight) requireAppleSilicon(ctx context.Context) error {
	virtual, err := p.Mac.System.VirtualMachine(ctx)
	if err != nil {
		return fmt.Errorf("asking whether this is a virtual machine: %w", err)
	}
	if virtual {
		return step.Fail(document.Human, "this is a virtual machine, and guests do not start inside one: use the Mac itself")
	}
	silicon, err := p.Mac.System.AppleSilicon(ctx)
	if err != nil {
		return fmt.Errorf("asking for the processor: %w", err)
	}
	if !silicon {
		return step.Fail(document.Human, "this Mac has no Apple silicon, which macOS guests need: order another type")
	}
	return nil
}

func (p preflight) requireFreeDisk(ctx context.Context) error {
	free, err := p.Mac.System.FreeBytes(ctx, dataFolder)
	if err != nil {
		return fmt.Errorf("asking for the free space of the disk: %w", err)
	}
	if free < MinFree {
		return step.Fail(document.Human, "%.1f GB are free on the disk, %.0f GB are needed: remove what fills it, or reinstall the Mac",
			float64(free)/1e9, MinFree/1e9)
	}
	return nil
}

// dataFolder is on the volume that is written to; the root is a sealed snapshot.
const dataFolder = "/var/db"
