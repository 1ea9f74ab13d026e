package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"
)

// file is one file of a volume that is made from objects.
type file struct {
	data []byte
	mode fs.FileMode
}

// payload is the contents of such a volume, by path below it.
type payload map[string]file

const (
	// dataLink is what readers follow; swapping it swaps all files at once. The names
	// are those of a kubelet, which programs know.
	dataLink = "..data"
	dataNext = "..data_tmp"
	// stampFormat begins with dots, as no key may.
	stampFormat = "..2006_01_02_15_04_05.000000000"
	// maxComponent and maxPath are what file systems take (NAME_MAX, PATH_MAX).
	maxComponent = 255
	maxPath      = 1024
)

// check refuses paths that would leave the volume or hide what it is made of, and
// those that are one to the file systems of macOS, which ignore case and how a letter is composed.
func (p payload) check() error {
	spelled := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if err := checkPath(name); err != nil {
			return err
		}
		for dir := name; dir != "."; dir = path.Dir(dir) {
			if _, both := p[dir]; both && dir != name {
				return wrong("path %q is a file and a directory", dir)
			}
			folded := strings.ToLower(norm.NFC.String(dir))
			if other, there := spelled[folded]; there && other != dir {
				return wrong("paths %q and %q differ only in case or in how a letter is composed, and are one file on a Mac: rename one, or choose by items", other, dir)
			}
			spelled[folded] = dir
		}
	}
	return nil
}

func checkPath(name string) error {
	switch {
	case name == "" || name != path.Clean(name) || !filepath.IsLocal(name) || name == ".":
		return wrong("path %q must be relative and without . or ..", name)
	case strings.HasPrefix(name, ".."):
		return wrong("path %q must not begin with two dots", name)
	case len(name) > maxPath || strings.ContainsRune(name, 0):
		return wrong("a path of %d bytes is longer than %d or holds a NUL byte", len(name), maxPath)
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxComponent {
			return wrong("a name of %d bytes in a path is longer than %d", len(part), maxComponent)
		}
	}
	return nil
}

// swap makes dir hold exactly the payload. Readers see all of the old or all of the
// new. It does nothing when nothing changed.
func (p payload) swap(dir *os.Root, now time.Time) error {
	if err := p.check(); err != nil {
		return err
	}
	old, err := dir.Readlink(dataLink)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the link to the data: %w", err)
	}
	if err == nil && p.isIn(dir, old) {
		return p.finish(dir, old)
	}
	stamp, err := p.write(dir, now)
	if err != nil {
		return err
	}
	if err := relink(dir, stamp, dataNext, dataLink); err != nil {
		return errors.Join(err, dir.RemoveAll(stamp))
	}
	return p.finish(dir, stamp)
}

// finish makes the links that users see and removes what is not in the payload. It
// also mends what an interrupted swap left.
func (p payload) finish(dir *os.Root, stamp string) error {
	names, listed := map[string]bool{}, map[string]bool{}
	for name := range p {
		first, _, _ := strings.Cut(name, "/")
		names[first], listed[decomposed(first)] = true, true
	}
	for name := range names {
		target := path.Join(dataLink, name)
		if have, err := dir.Readlink(name); err == nil && have == target {
			continue
		}
		if err := relink(dir, target, dataNext, name); err != nil {
			return err
		}
	}
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return fmt.Errorf("listing the volume: %w", err)
	}
	for _, e := range entries {
		if keep := e.Name() == dataLink || e.Name() == stamp || listed[decomposed(e.Name())]; keep {
			continue
		}
		if err := dir.RemoveAll(e.Name()); err != nil {
			return fmt.Errorf("removing what is not in the volume any more: %w", err)
		}
	}
	return nil
}

// decomposed is a name as HFS+, the RAM disks' file system, lists it, whatever it was made as.
func decomposed(name string) string { return norm.NFD.String(name) }

// relink points name to target at once, by way of a link of the name next.
func relink(dir *os.Root, target, next, name string) error {
	if err := dir.RemoveAll(next); err != nil {
		return fmt.Errorf("removing an unfinished link: %w", err)
	}
	if err := dir.Symlink(target, next); err != nil {
		return fmt.Errorf("making a link: %w", err)
	}
	if err := dir.Rename(next, name); err != nil {
		return fmt.Errorf("swapping a link: %w", err)
	}
	return nil
}

// write puts the payload into a new directory and returns its name.
func (p payload) write(dir *os.Root, now time.Time) (string, error) {
	stamp := now.UTC().Format(stampFormat)
	for n := 0; ; n++ {
		err := dir.Mkdir(stamp, 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("making a directory for the data: %w", err)
		}
		stamp = fmt.Sprintf("%s_%d", now.UTC().Format(stampFormat), n)
	}
	for name, f := range p {
		if err := f.write(dir, path.Join(stamp, name)); err != nil {
			return "", errors.Join(err, dir.RemoveAll(stamp))
		}
	}
	return stamp, nil
}

func (f file) write(dir *os.Root, name string) error {
	if err := dir.MkdirAll(path.Dir(name), 0o755); err != nil {
		return fmt.Errorf("making a directory of the volume: %w", err)
	}
	if err := dir.WriteFile(name, f.data, 0o600); err != nil {
		return fmt.Errorf("writing a file of the volume: %w", err)
	}
	// Apart from writing, as the mode may forbid that and the umask may narrow it.
	if err := dir.Chmod(name, f.mode); err != nil {
		return fmt.Errorf("setting the mode of a file of the volume: %w", err)
	}
	return nil
}

// isIn reports whether the directory stamp holds exactly the payload. A file that
// cannot be read counts as another one.
func (p payload) isIn(dir *os.Root, stamp string) bool {
	wanted := map[string]file{}
	for name, f := range p {
		wanted[decomposed(name)] = f
	}
	found := 0
	err := fs.WalkDir(dir.FS(), stamp, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		want, ok := wanted[decomposed(strings.TrimPrefix(name, stamp+"/"))]
		if !ok || !want.is(dir, name) {
			return errDiffers
		}
		found++
		return nil
	})
	return err == nil && found == len(p)
}

var errDiffers = errors.New("differs")

func (f file) is(dir *os.Root, name string) bool {
	info, err := dir.Lstat(name)
	if err != nil || info.Mode() != f.mode {
		return false
	}
	data, err := dir.ReadFile(name)
	return err == nil && bytes.Equal(data, f.data)
}
