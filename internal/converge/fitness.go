package converge

import (
	"context"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// minFree is what must be free on the disk before anything is put on it: one
// guest's image, compressed, and room to work.
const minFree = 20e9

// fitness refuses a machine that can never be a node, before it is touched.
func (t *target) fitness() step {
	return step{
		name:  "fitness",
		about: "Looks whether the machine can be a node: a Mac with Apple silicon and no virtual machine, FileVault off, 20 GB free. It changes nothing.",
		undo:  "There is nothing to undo.",
		check: func(ctx context.Context) ([]string, error) {
			for _, fit := range []func(context.Context) error{t.isMac, t.isOpen, t.hasRoom} {
				if err := fit(ctx); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
	}
}

func (t *target) isMac(ctx context.Context) error {
	virtual, err := t.Mac.System.VirtualMachine(ctx)
	if err != nil {
		return fmt.Errorf("asking whether this is a virtual machine: %w", err)
	}
	if virtual {
		return fail(document.Human, "this is a virtual machine, and guests do not start inside one: use the Mac itself")
	}
	silicon, err := t.Mac.System.AppleSilicon(ctx)
	if err != nil {
		return fmt.Errorf("asking for the processor: %w", err)
	}
	if !silicon {
		return fail(document.Human, "this Mac has no Apple silicon, which macOS guests need: order another type")
	}
	return nil
}

// isOpen refuses a disk that is locked until somebody types a password.
func (t *target) isOpen(ctx context.Context) error {
	on, err := t.Mac.System.FileVault(ctx)
	if err != nil {
		return fmt.Errorf("asking for FileVault: %w", err)
	}
	if on {
		return fail(document.Human, "FileVault is on: nobody is logged in after a boot, and no guest starts. Turn it off with `sudo fdesetup disable`, or reinstall the Mac")
	}
	return nil
}

func (t *target) hasRoom(ctx context.Context) error {
	free, err := t.Mac.System.FreeBytes(ctx, dataFolder)
	if err != nil {
		return fmt.Errorf("asking for the free space of the disk: %w", err)
	}
	if free < minFree {
		return fail(document.Human, "%.1f GB are free on the disk, %.0f GB are needed: remove what fills it, or reinstall the Mac",
			float64(free)/1e9, minFree/1e9)
	}
	return nil
}

// dataFolder is on the volume that is written to; the root is a sealed snapshot.
const dataFolder = "/var/db"
