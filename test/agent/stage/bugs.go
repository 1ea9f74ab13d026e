package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Edit replaces text that is in a source file exactly once.
type Edit struct {
	// File below the root of the checkout.
	File, Old, New string
}

// Edited returns the edited sources of a checkout, by file. It fails when an edit does not
// fit them any more.
func Edited(root string, edits ...Edit) (map[string]string, error) {
	sources := map[string]string{}
	for _, e := range edits {
		text, known := sources[e.File]
		if !known {
			data, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, fmt.Errorf("reading a source to edit: %w", err)
			}
			text = string(data)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("%s holds %d times what is to be edited, want once: %q", e.File, n, e.Old)
		}
		sources[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return sources, nil
}

// BuildWith builds another agent from edited sources, which stay as they are on the
// disk: a known bug is put back, to see who notices.
func (p *Plane) BuildWith(ctx context.Context, name string, edits ...Edit) error {
	dir := filepath.Join(p.options.Dir, "edited", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for edited sources: %w", err)
	}
	root, err := filepath.Abs(p.source())
	if err != nil {
		return fmt.Errorf("finding the sources: %w", err)
	}
	sources, err := Edited(root, edits...)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for file, text := range sources {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return fmt.Errorf("writing an edited source: %w", err)
		}
		replace[filepath.Join(root, file)] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the list of edited sources: %w", err)
	}
	return p.build(ctx, name, "./cmd/tart-kubelet", "-overlay="+filepath.Join(dir, "overlay.json"))
}

// UseAgent makes the Mac run an agent of BuildWith. Before its first start.
func (m *Mac) UseAgent(name string) error {
	path := m.Path("bin", "tart-kubelet")
	return errors.Join(os.Remove(path), link(m.plane.bin(name), path))
}
