package macostest

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

const volumesDir = "/Volumes"

// AddVolume makes a volume behind converge's back, mounted as macOS would.
func (m *Mac) AddVolume(name string, quotaBytes int64) macos.Volume {
	m.lastVolume++
	v := &macos.Volume{
		UUID: fmt.Sprintf("7A0F0000-0000-4000-8000-%012d", m.lastVolume), Name: name, QuotaBytes: quotaBytes,
	}
	m.volumes = append(m.volumes, v)
	m.mount(v)
	return *v
}

// Unmount takes a volume from its place; what is on it stays there.
func (m *Mac) Unmount(uuid string) {
	if v := m.volume(uuid); v != nil && v.Mount != "" {
		m.unmount(v)
	}
}

// AddedVolumes counts the volumes that were ever made.
func (m *Mac) AddedVolumes() int { return m.lastVolume }

func (m *Mac) volume(which string) *macos.Volume {
	for _, v := range m.volumes {
		if which == v.UUID || which == v.Mount && v.Mount != "" {
			return v
		}
	}
	return nil
}

// mount gives a volume the first free place of its name.
func (m *Mac) mount(v *macos.Volume) {
	place := path.Join(volumesDir, v.Name)
	for n := 1; m.files[place] != nil; n++ {
		place = fmt.Sprintf("%s %d", path.Join(volumesDir, v.Name), n)
	}
	v.Mount = place
	m.files[place] = &file{Info: macos.Info{Dir: true, Attr: macos.Attr{Mode: 0o775, Owner: "root", Group: "wheel"}}}
	for name, f := range m.unmounted[v.UUID] {
		m.files[place+name] = f
	}
	delete(m.unmounted, v.UUID)
}

func (m *Mac) unmount(v *macos.Volume) {
	kept := map[string]*file{}
	maps.DeleteFunc(m.files, func(name string, f *file) bool {
		rest, below := strings.CutPrefix(name, v.Mount)
		if !below || rest != "" && rest[0] != '/' {
			return false
		}
		kept[rest] = f
		return true
	})
	m.unmounted[v.UUID] = kept
	v.Mount = ""
}

type volumes struct{ m *Mac }

func (s volumes) Volume(_ context.Context, which string) (macos.Volume, error) {
	if v := s.m.volume(which); v != nil {
		return *v, nil
	}
	return macos.Volume{}, fmt.Errorf("volume %s: %w", which, fs.ErrNotExist)
}

func (s volumes) Add(_ context.Context, name string, quotaBytes int64) (macos.Volume, error) {
	if err := s.m.change("add volume"); err != nil {
		return macos.Volume{}, err
	}
	return s.m.AddVolume(name, quotaBytes), nil
}

// alter changes a volume that is there. Of another, macOS does not say that it is gone.
func (s volumes) alter(call, uuid string, how func(v *macos.Volume)) error {
	if err := s.m.change(call); err != nil {
		return err
	}
	v := s.m.volume(uuid)
	if v == nil {
		return fmt.Errorf("%s: exit status 1", call)
	}
	how(v)
	return nil
}

func (s volumes) Mount(_ context.Context, uuid string) error {
	return s.alter("mount volume", uuid, func(v *macos.Volume) {
		if v.Mount == "" {
			s.m.mount(v)
		}
	})
}

func (s volumes) EnableOwners(_ context.Context, uuid string) error {
	return s.alter("enable owners", uuid, func(v *macos.Volume) { v.Owners = true })
}

func (s volumes) Remove(_ context.Context, uuid string) error {
	return s.alter("remove volume", uuid, func(v *macos.Volume) {
		if v.Mount != "" {
			s.m.unmount(v)
		}
		for i, other := range s.m.volumes {
			if other == v {
				s.m.volumes = append(s.m.volumes[:i:i], s.m.volumes[i+1:]...)
			}
		}
		delete(s.m.unmounted, uuid)
	})
}
