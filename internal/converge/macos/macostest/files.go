package macostest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"sort"
	"strings"
	"syscall"

	"github.com/macfleet/macfleet/internal/atomicfile"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

type file struct {
	macos.Info
	data   []byte
	locked bool
}

// Put places a file without recording a change.
func (m *Mac) Put(name string, data []byte, attr macos.Attr) {
	m.files[name] = &file{Info: macos.Info{Attr: attr}, data: bytes.Clone(data)}
}

// Get returns what a file holds, through links.
func (m *Mac) Get(name string) ([]byte, bool) {
	f, ok := m.files[m.resolve(name)]
	if !ok || f.Dir {
		return nil, false
	}
	return f.data, true
}

// Resolve follows the links in the folders of name and in name itself.
func (m *Mac) Resolve(name string) string { return m.resolve(name) }

func (m *Mac) resolve(name string) string {
	done := "/"
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		next := path.Join(done, part)
		if f, ok := m.files[next]; ok && f.Target != "" {
			next = f.Target
			if !path.IsAbs(next) {
				next = path.Join(done, next)
			}
			next = m.resolve(next)
		}
		done = next
	}
	return done
}

// place is name with the links of its folder followed, its own link not.
func (m *Mac) place(name string) string {
	return path.Join(m.resolve(path.Dir(name)), path.Base(name))
}

type files struct{ m *Mac }

func missing(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

func (s files) Stat(_ context.Context, name string) (macos.Info, error) {
	f, ok := s.m.files[s.m.place(name)]
	if !ok {
		return macos.Info{}, missing("stat", name)
	}
	return f.Info, nil
}

func (s files) Open(name string) (io.ReadCloser, error) {
	data, ok := s.m.Get(name)
	if !ok {
		return nil, missing("open", name)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (s files) List(name string) ([]string, error) {
	dir := s.m.resolve(name)
	if f, ok := s.m.files[dir]; !ok || !f.Dir {
		return nil, missing("list", name)
	}
	var names []string
	for other := range s.m.files {
		if path.Dir(other) == dir && other != dir {
			names = append(names, path.Base(other))
		}
	}
	sort.Strings(names)
	return names, nil
}

func (s files) MakeDir(_ context.Context, name string, attr macos.Attr) error {
	if err := s.parent(name); err != nil {
		return err
	}
	if err := s.m.change("mkdir " + name); err != nil {
		return err
	}
	s.m.files[s.m.place(name)] = &file{Info: macos.Info{Dir: true, Attr: attr}}
	return nil
}

func (s files) Replace(_ context.Context, name string, c macos.Content) error {
	if err := s.parent(name); err != nil {
		return err
	}
	data, err := io.ReadAll(c.Data)
	if err != nil {
		return err
	}
	stage := c.Stage
	if stage == "" {
		stage = path.Dir(name)
	}
	// A writer that dies before its file is in its place leaves this behind.
	staged := s.m.place(atomicfile.Temp(path.Join(stage, path.Base(name))))
	s.m.files[staged] = &file{Info: macos.Info{Attr: c.Attr}, data: data}
	if err := s.m.change("write " + name); err != nil {
		delete(s.m.files, staged)
		return err
	}
	delete(s.m.files, staged)
	s.m.files[s.m.place(name)] = &file{Info: macos.Info{Attr: c.Attr}, data: data}
	return nil
}

func (s files) Link(name, target string) error {
	if err := s.parent(name); err != nil {
		return err
	}
	if err := s.m.change("link " + name); err != nil {
		return err
	}
	s.m.files[s.m.place(name)] = &file{Info: macos.Info{Target: target}}
	return nil
}

func (s files) Rename(from, to string) error {
	if err := s.parent(to); err != nil {
		return err
	}
	old, place := s.m.place(from), s.m.place(to)
	if _, ok := s.m.files[old]; !ok {
		return missing("rename", from)
	}
	if err := s.m.change("rename " + to); err != nil {
		return err
	}
	moved := map[string]*file{}
	for name, f := range s.m.files {
		if rest, below := strings.CutPrefix(name, old); below && (rest == "" || rest[0] == '/') {
			delete(s.m.files, name)
			moved[place+rest] = f
		}
	}
	maps.Copy(s.m.files, moved)
	return nil
}

func (s files) parent(name string) error {
	if f, ok := s.m.files[s.m.resolve(path.Dir(name))]; !ok || !f.Dir {
		return missing("create", name)
	}
	return nil
}

func (s files) Remove(name string) error {
	at := s.m.place(name)
	if _, ok := s.m.files[at]; !ok {
		return nil
	}
	for mount := range s.m.ram {
		if strings.HasPrefix(mount, name+"/") {
			return fmt.Errorf("removing %s: %w", name, syscall.EBUSY)
		}
	}
	if err := s.m.change("remove " + name); err != nil {
		return err
	}
	for other := range s.m.files {
		if other == at || strings.HasPrefix(other, at+"/") {
			delete(s.m.files, other)
		}
	}
	return nil
}

func (s files) Lock(name string) (io.Closer, error) {
	if err := s.parent(name); err != nil {
		return nil, err
	}
	f, ok := s.m.files[s.m.place(name)]
	if !ok {
		f = &file{Info: macos.Info{Attr: macos.Attr{Mode: 0o600, Owner: "root", Group: "wheel"}}}
		s.m.files[s.m.place(name)] = f
	}
	if f.locked {
		return nil, macos.ErrLocked
	}
	f.locked = true
	return unlock{f}, nil
}

type unlock struct{ f *file }

func (u unlock) Close() error {
	if !u.f.locked {
		return fmt.Errorf("not locked")
	}
	u.f.locked = false
	return nil
}
