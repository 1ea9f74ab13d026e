package tart

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// explicitMark keeps an image that was pulled by digest from the garbage.
const explicitMark = ".explicitly-pulled"

// name links a tag to a cached image, or marks one that was pulled by its digest.
func (h home) name(ref reference, cached vmDir) error {
	if ref.digest != "" {
		return os.WriteFile(filepath.Join(string(cached), explicitMark), nil, 0o644)
	}
	link := string(h.dir(ref))
	if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("moving a tag: %w", err)
	}
	target, err := filepath.Abs(string(cached))
	if err != nil {
		return fmt.Errorf("finding a cached image: %w", err)
	}
	if err := os.Symlink(target, link); err != nil {
		return fmt.Errorf("linking a tag: %w", err)
	}
	return h.collectImages()
}

// cachedImage is one name in the image cache.
type cachedImage struct {
	name string
	dir  vmDir
	tag  bool // a link to a digest
}

// digest is the directory behind the name.
func (i cachedImage) digest() vmDir {
	target, err := os.Readlink(string(i.dir))
	if err != nil {
		return i.dir
	}
	return vmDir(target)
}

// cached lists all names, sorted.
func (h home) cached() ([]cachedImage, error) {
	var found []cachedImage
	err := filepath.WalkDir(h.images(), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed by another command meanwhile
		}
		if err != nil {
			return err
		}
		link := e.Type()&fs.ModeSymlink != 0
		if (!link && !e.IsDir()) || !(vmDir(path).complete() || link) {
			return nil
		}
		rel, err := filepath.Rel(h.images(), path)
		if err != nil {
			return err
		}
		name, err := url.PathUnescape(filepath.ToSlash(filepath.Dir(rel)))
		if err != nil {
			return fmt.Errorf("reading a registry's name: %w", err)
		}
		sep := "@"
		if link {
			sep = ":"
		}
		found = append(found, cachedImage{
			name: name + sep + filepath.Base(rel), dir: vmDir(path), tag: link,
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing cached images: %w", err)
	}
	slices.SortFunc(found, func(a, b cachedImage) int { return strings.Compare(a.name, b.name) })
	return found, nil
}

// collectImages removes dangling tags, and digests that no tag names and nobody
// pulled as such. A tag that moves away takes its old image with it.
func (h home) collectImages() error {
	all, err := h.cached()
	if err != nil {
		return err
	}
	named := map[vmDir]bool{}
	for _, i := range all {
		if !i.tag {
			continue
		}
		if !i.dir.complete() {
			_ = os.Remove(string(i.dir))
			continue
		}
		named[i.digest()] = true
	}
	for _, i := range all {
		if i.tag || named[i.dir] || exists(filepath.Join(string(i.dir), explicitMark)) {
			continue
		}
		if err := os.RemoveAll(string(i.dir)); err != nil {
			return fmt.Errorf("removing an unused image: %w", err)
		}
	}
	return h.collectContent()
}

// fqn prints the digest name of a cached image.
func (c images) fqn(_ context.Context, args []string) error {
	words, err := newArguments("fqn <name>").parse(args, 1, 1)
	if err != nil {
		return err
	}
	ref, ok := parseReference(words[0])
	if !ok {
		c.printf("%s\n", words[0])
		return nil
	}
	image := cachedImage{dir: c.home.dir(ref)}
	if !image.dir.complete() {
		return doesNotExist(words[0])
	}
	c.printf("%s\n", ref.byDigest(image.digest().name()))
	return nil
}
