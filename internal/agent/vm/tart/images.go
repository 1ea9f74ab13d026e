package tart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// referencePattern: host, namespace with name, and a tag or a digest. A name
// without a host is a local machine to tart, and never an image of ours.
var referencePattern = regexp.MustCompile(
	`^([A-Za-z0-9][A-Za-z0-9.:-]*)/([A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*?)(?::([A-Za-z0-9_][A-Za-z0-9._-]*)|@(sha256:[0-9a-f]{64}))?$`)

// imageLink is where tart keeps an image: a directory named by its digest, or a
// link to one named by its tag.
func (d *Driver) imageLink(ref string) (string, error) {
	m := referencePattern.FindStringSubmatch(ref)
	if m == nil || strings.Contains(ref, "..") {
		return "", fmt.Errorf("image %q: %w (want host/namespace/name:tag or …@sha256:…)", ref, vm.ErrInvalidReference)
	}
	leaf := m[3]
	switch {
	case m[4] != "":
		leaf = m[4]
	case leaf == "":
		leaf = "latest"
	}
	return filepath.Join(d.home, "cache", "OCIs", m[1], filepath.FromSlash(m[2]), leaf), nil
}

// Digest follows tart's own link.
func (d *Driver) Digest(_ context.Context, ref string) (string, error) {
	link, err := d.imageLink(ref)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(link)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("image %s: %w", ref, vm.ErrNotFound)
	}
	if err != nil {
		return "", fmt.Errorf("looking for image %s: %w", ref, err)
	}
	// A directory without its configuration is a pull that never finished.
	if _, err := os.Stat(filepath.Join(real, "config.json")); err != nil {
		return "", fmt.Errorf("image %s is not complete: %w", ref, vm.ErrNotFound)
	}
	return filepath.Base(real), nil
}

// Images lists what `tart list` shows of its OCI cache.
func (d *Driver) Images(ctx context.Context) ([]vm.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	out, err := d.tart(ctx, "list", "--source", "oci", "--format", "json")
	if err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	return parseImages([]byte(out))
}

// parseImages reads both dialects: sizes as numbers or as text, in decimal
// gigabytes, under the names Size or SizeOnDisk; unknown keys are ignored.
func parseImages(data []byte) ([]vm.Image, error) {
	var rows []struct {
		Source     string
		Name       string
		Size       gigabytes
		SizeOnDisk gigabytes
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("parsing the list of images: %w", err)
	}
	var images []vm.Image
	for _, r := range rows {
		if r.Name == "" || strings.EqualFold(r.Source, "local") {
			continue
		}
		images = append(images, vm.Image{Name: r.Name, SizeBytes: int64(max(r.Size, r.SizeOnDisk))})
	}
	return images, nil
}

// gigabytes is a size in bytes, written in decimal gigabytes.
type gigabytes int64

func (g *gigabytes) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if text == "null" || text == "" {
		return nil
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "GB")), 64)
	if err != nil {
		return fmt.Errorf("size %s is not a number: %w", data, err)
	}
	*g = gigabytes(f * 1e9)
	return nil
}
