package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Allowed reports whether a hostPath is a directory of the list, or below one, by
// its text alone.
func Allowed(p string, list []string) bool {
	_, ok := prefixOf(p, list)
	return ok
}

// prefixOf returns the outermost directory of the list that p is in: a guest that has an outer
// one may have put a link in the place of an inner one.
func prefixOf(p string, list []string) (string, bool) {
	if !filepath.IsAbs(p) || hasDots(p) {
		return "", false
	}
	outermost, found := "", false
	for _, prefix := range list {
		prefix = filepath.Clean(prefix)
		if filepath.IsAbs(prefix) && within(filepath.Clean(p), prefix) && (!found || len(prefix) < len(outermost)) {
			outermost, found = prefix, true
		}
	}
	return outermost, found
}

func hasDots(p string) bool { return slices.Contains(strings.Split(p, "/"), "..") }

func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// hostPath returns the real directory behind a hostPath. It makes one where the
// type says so, and refuses links that lead out of what the list allows.
func hostPath(v *corev1.HostPathVolumeSource, list, own []string) (string, error) {
	prefix, ok := prefixOf(v.Path, list)
	if !ok {
		return "", fmt.Errorf("hostPath %s is not below a directory that this node allows", v.Path)
	}
	// Before anything is made there.
	if err := keepOff(v.Path, own); err != nil {
		return "", err
	}
	if v.Type != nil && *v.Type == corev1.HostPathDirectoryOrCreate {
		if err := makeBelow(prefix, filepath.Clean(v.Path)); err != nil {
			return "", err
		}
	}
	real, err := filepath.EvalSymlinks(v.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("hostPath %s does not exist on this node", v.Path)
	}
	if err != nil {
		return "", fmt.Errorf("hostPath %s cannot be looked up: %w", v.Path, err)
	}
	allowed, err := filepath.EvalSymlinks(prefix)
	if err != nil {
		return "", fmt.Errorf("the allowed directory %s cannot be looked up: %w", prefix, err)
	}
	if !within(real, allowed) {
		return "", fmt.Errorf("hostPath %s is a link that leads out of %s", v.Path, prefix)
	}
	if !vm.Shareable(real) {
		return "", fmt.Errorf("hostPath %s leads to %q, and a path with a colon, a comma or a control character cannot be shared with a VM", v.Path, real)
	}
	if err := keepOff(real, own); err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err != nil || !info.IsDir() {
		return "", fmt.Errorf("hostPath %s is no directory, and only directories can be shared with a VM", v.Path)
	}
	return real, nil
}

// hostPathsFile, in the directory of a Pod that only the agent reads, names the
// directories of the host that are shared with its guest.
const hostPathsFile = "hostpaths.json"

// sharedPath is a directory of the host that a guest has.
type sharedPath struct {
	Path     string `json:"path"`
	Writable bool   `json:"writable"`
}

// claimHostPaths records what of the host a Pod's guest is about to have. It refuses a
// directory inside one that another guest may write to, and the other way round: a
// guest could put a link in its place after it was looked up and before tart opens it,
// and tart would share whatever that leads to.
func (s *Store) claimHostPaths(d dirs, wanted []sharedPath) error {
	taken, err := s.otherHostPaths(filepath.Base(d.disk))
	if err != nil {
		return err
	}
	for _, mine := range wanted {
		for _, other := range taken {
			if swappable(mine, other) || swappable(other, mine) {
				return wrong("hostPath %s and %s, which another Pod on this node has, lie one inside the other and the outer one may be written to: this Pod waits until that one is gone", mine.Path, other.Path)
			}
		}
	}
	file := filepath.Join(d.disk, hostPathsFile)
	if len(wanted) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return wrong("forgetting the Pod's hostPaths: %w", err)
		}
		return nil
	}
	data, err := json.Marshal(wanted)
	if err != nil {
		return wrong("recording the Pod's hostPaths: %w", err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return wrong("recording the Pod's hostPaths: %w", err)
	}
	return nil
}

// swappable: who has outer can put something else in the place of inner. Files are
// compared, as the disk may not tell letters of either case apart.
func swappable(inner, outer sharedPath) bool {
	return outer.Writable && meets(outer.Path, inner.Path) && !meets(inner.Path, outer.Path)
}

// otherHostPaths are the directories of the host that guests of other Pods have. A
// record that was cut off by a crash belongs to a Pod whose guest did not start.
func (s *Store) otherHostPaths(own string) ([]sharedPath, error) {
	files, err := filepath.Glob(filepath.Join(s.o.Dir, "*", hostPathsFile))
	if err != nil {
		return nil, wrong("looking for the hostPaths of other Pods: %w", err)
	}
	var all []sharedPath
	for _, file := range files {
		if filepath.Base(filepath.Dir(file)) == own {
			continue
		}
		data, err := os.ReadFile(file) // in the store's own directory
		var list []sharedPath
		if err == nil && json.Unmarshal(data, &list) == nil {
			all = append(all, list...)
		}
	}
	return all, nil
}

// keepOff refuses what is one of our own directories, holds it, or is in it. Files are
// compared, not names: one directory has several of these.
func keepOff(dir string, own []string) error {
	for _, mine := range own {
		if meets(dir, mine) || meets(mine, dir) {
			return fmt.Errorf("hostPath %s is, holds or is in %s, which the node keeps for itself", dir, mine)
		}
	}
	return nil
}

// meets reports whether dir is inner, or one of the directories that it is in.
func meets(dir, inner string) bool {
	there, err := os.Stat(dir)
	if err != nil {
		return false
	}
	for ; ; inner = filepath.Dir(inner) {
		if info, err := os.Stat(inner); err == nil && os.SameFile(there, info) {
			return true
		}
		if inner == filepath.Dir(inner) {
			return false
		}
	}
}

// makeBelow makes a directory without following links out of prefix.
func makeBelow(prefix, dir string) error {
	root, err := os.OpenRoot(prefix)
	if err != nil {
		return fmt.Errorf("the allowed directory %s cannot be opened: %w", prefix, err)
	}
	defer root.Close()
	rel, err := filepath.Rel(prefix, dir)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(rel, 0o755); err != nil {
		return fmt.Errorf("hostPath %s cannot be made: %w", dir, err)
	}
	return nil
}
