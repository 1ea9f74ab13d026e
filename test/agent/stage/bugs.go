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

// BuildWith builds another agent from edited sources, which stay as they are on the
// disk: a known bug is put back, to see who notices. It fails when an edit does not
// fit the sources any more.
func (p *Plane) BuildWith(ctx context.Context, name string, edits ...Edit) error {
	dir := filepath.Join(p.options.Dir, "edited", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for edited sources: %w", err)
	}
	root, err := filepath.Abs(p.source())
	if err != nil {
		return fmt.Errorf("finding the sources: %w", err)
	}
	replace := map[string]string{}
	for i, e := range edits {
		from, to := filepath.Join(root, e.File), filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if before, edited := replace[from]; edited {
			to = before
		}
		if err := e.apply(from, to); err != nil {
			return err
		}
		replace[from] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the list of edited sources: %w", err)
	}
	return p.build(ctx, name, "./cmd/tart-kubelet", "-overlay="+filepath.Join(dir, "overlay.json"))
}

// apply edits what is at to already, or else what is at from.
func (e Edit) apply(from, to string) error {
	text, err := os.ReadFile(to)
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile(from)
	}
	if err != nil {
		return fmt.Errorf("reading a source to edit: %w", err)
	}
	if n := strings.Count(string(text), e.Old); n != 1 {
		return fmt.Errorf("%s holds %d times what is to be edited, want once: %q", e.File, n, e.Old)
	}
	return os.WriteFile(to, []byte(strings.Replace(string(text), e.Old, e.New, 1)), 0o600)
}

// UseAgent makes the Mac run an agent of BuildWith. Before its first start.
func (m *Mac) UseAgent(name string) error {
	path := m.Path("bin", "tart-kubelet")
	return errors.Join(os.Remove(path), link(m.plane.bin(name), path))
}
