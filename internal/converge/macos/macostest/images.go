package macostest

import (
	"context"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// MountRAM mounts a RAM disk behind converge's back, as the agent does.
func (m *Mac) MountRAM(mount string) {
	if m.ram == nil {
		m.ram = map[string]bool{}
	}
	m.ram[mount] = true
}

type images struct{ m *Mac }

var _ macos.Images = images{}

func (s images) DetachRAM(_ context.Context, mount string) error {
	if !s.m.ram[mount] {
		return nil
	}
	if err := s.m.change("detach " + mount); err != nil {
		return err
	}
	delete(s.m.ram, mount)
	return nil
}
