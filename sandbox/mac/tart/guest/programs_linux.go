package guest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// programs are files to show in the guest, by their paths there.
func (s System) programs() (map[string]string, error) {
	found := s.shell()
	if s.Program != "" {
		found["usr/bin/nc"] = s.Program
	}
	if s.Extra == "" {
		return found, nil
	}
	extra, err := os.ReadDir(s.Extra)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range extra {
		from := filepath.Join(s.Extra, e.Name())
		found[filepath.Join("usr/local/bin", e.Name())], found[e.Name()] = from, from
	}
	return found, nil
}

// shell puts bash where sh is, as macOS does: other shells lose variables whose names are
// no identifiers, which a Pod may have. Without a bash the host's own sh stays.
func (s System) shell() map[string]string {
	bash := filepath.Join(s.Userland, "usr/bin/bash")
	if st, err := os.Lstat(filepath.Join(s.Userland, "bin")); err == nil && st.IsDir() {
		bash = filepath.Join(s.Userland, "bin/bash")
	}
	if st, err := os.Stat(bash); err != nil || !st.Mode().IsRegular() {
		return map[string]string{}
	}
	at, err := filepath.Rel(s.Userland, filepath.Join(filepath.Dir(bash), "sh"))
	if err != nil {
		return map[string]string{}
	}
	return map[string]string{at: bash}
}

// writePlaceholder makes a file to mount another one over: at its place at the root, or
// in the tree that is laid over the host's.
func writePlaceholder(inTree string) error {
	at := inTree
	if name := filepath.Base(inTree); inTree == filepath.Join(tools, name) {
		at = name
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, nil, 0o755)
}
