package volume

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// planner makes the volumes of one Pod and collects what its guest needs.
type planner struct {
	store  *Store
	pod    *corev1.Pod
	dirs   dirs
	shares map[string]vm.Share
	links  []Link
	homes  map[string]home
	// hostPaths are the directories of the host that the guest will have.
	hostPaths []sharedPath
}

func (l *planner) share(s vm.Share) { l.shares[s.Name] = s }

func (l *planner) sorted() []vm.Share {
	return slices.SortedFunc(maps.Values(l.shares), func(a, b vm.Share) int { return cmp.Compare(a.Name, b.Name) })
}

// make makes one volume and remembers where it is.
func (l *planner) make(v corev1.Volume, files payload) error {
	h := homeOf(l.dirs, l.pod, v)
	switch {
	case v.EmptyDir != nil:
		if err := makeIn(h.dir, h.rel); err != nil {
			return err
		}
	case v.HostPath != nil:
		real, err := hostPath(v.HostPath, l.store.o.HostPaths, l.store.o.Own)
		if err != nil {
			return err
		}
		h.dir = real
		l.hostPaths = append(l.hostPaths, sharedPath{Path: real, Writable: !h.readOnly})
	case fromObjects(v):
		if err := l.store.fill(h, files); err != nil {
			return err
		}
	default:
		return errors.New("volumes of its type are not supported")
	}
	if l.homes == nil {
		l.homes = map[string]home{}
	}
	l.homes[v.Name] = h
	return nil
}

// linkAll makes a link of each mount of each container. Containers share the guest,
// so that two may have a mount in common but not two at one path.
func (l *planner) linkAll() error {
	for _, m := range mounts(l.pod) {
		k, err := l.link(m)
		if err != nil {
			return err
		}
		if slices.Contains(l.links, k) {
			continue
		}
		for _, other := range l.links {
			if Overlap(other.MountPath, k.MountPath) {
				return wrong("mount path %s is inside or in place of mount path %s, and all containers are in one VM", k.MountPath, other.MountPath)
			}
		}
		l.links = append(l.links, k)
	}
	return nil
}

func (l *planner) link(m corev1.VolumeMount) (Link, error) {
	h, ok := l.homes[m.Name]
	if !ok {
		return Link{}, wrong("the Pod has no volume %q, which is mounted at %s", m.Name, m.MountPath)
	}
	at, err := MountPath(m.MountPath)
	if err != nil {
		return Link{}, err
	}
	if m.SubPath != "" {
		if err := subPath(h, m.SubPath); err != nil {
			return Link{}, of(m.Name, fmt.Errorf("subPath %q: %w", m.SubPath, err))
		}
	}
	s, rel := h.seen(m.ReadOnly)
	l.share(s)
	return Link{
		Source: guestPath(s.Name, path.Join(rel, m.SubPath)), MountPath: at,
		ReadOnly: s.ReadOnly, Injected: Injected(m),
	}, nil
}

// MountPath is a mount path as the guest is told of it: absolute and clean. It
// refuses the root and what cannot be written on one line.
func MountPath(p string) (string, error) {
	clean := path.Join("/", p)
	switch {
	case strings.ContainsFunc(p, unicode.IsControl):
		return "", wrong("mount path %q has a control character", p)
	case clean == "/":
		return "", wrong("mount path %q is the root of the guest", p)
	case clean == guestShares || strings.HasPrefix(clean, guestShares+"/"):
		return "", wrong("mount path %q is where the guest sees its shares", p)
	}
	return clean, nil
}

// Overlap tells paths of which one is the other, or inside it.
func Overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// subPath makes sure that a part of a volume is there, and inside it.
func subPath(h home, sub string) error {
	if !filepath.IsLocal(sub) {
		return errors.New("it must be relative and lead nowhere up")
	}
	if h.readOnly {
		return existsIn(h.path(), sub)
	}
	return makeIn(h.path(), sub)
}

func existsIn(dir, rel string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Stat(rel); err != nil {
		return errors.New("the volume has no such file or directory")
	}
	return nil
}

// makeIn makes directories below dir. A guest may have put links in their place,
// which would lead the host out of the Pod's directory: it refuses them. The last
// component may be a file.
func makeIn(dir, rel string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	parts := strings.Split(path.Clean(rel), "/")
	for i := range parts {
		part := path.Join(parts[:i+1]...)
		err := root.Mkdir(part, 0o755)
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making a directory of the volume: %w", err)
		}
		info, err := root.Lstat(part)
		switch {
		case err != nil:
			return fmt.Errorf("looking at a directory of the volume: %w", err)
		case !info.IsDir() && (i < len(parts)-1 || !info.Mode().IsRegular()):
			return fmt.Errorf("%s is no directory any more", part)
		}
	}
	return nil
}
