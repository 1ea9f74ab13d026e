package tart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

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
	return filepath.Join(registryDir(d.home, m[1]), filepath.FromSlash(m[2]), leaf), nil
}

// registryDir is where tart keeps the images of a registry. Of its host tart encodes the
// colon before the port, and nothing else.
func registryDir(home, host string) string {
	return filepath.Join(home, "cache", "OCIs", strings.ReplaceAll(host, ":", "%3A"))
}

// Digest follows tart's own link.
func (d *Driver) Digest(_ context.Context, ref string) (string, error) {
	digest, _, err := d.image(ref)
	return digest, err
}

// image finds the digest of an image and the bytes of its layers. One that is not
// whole is not held: a clone would have tart pull it by itself.
func (d *Driver) image(ref string) (digest string, layers int64, err error) {
	link, err := d.imageLink(ref)
	if err != nil {
		return "", 0, err
	}
	real, err := filepath.EvalSymlinks(link)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, fmt.Errorf("image %s: %w", ref, vm.ErrNotFound)
	}
	if err != nil {
		return "", 0, fmt.Errorf("looking for image %s: %w", ref, err)
	}
	// A directory without its configuration is a pull that never finished.
	if _, err := os.Stat(filepath.Join(real, "config.json")); err != nil {
		return "", 0, fmt.Errorf("image %s is not complete: %w", ref, vm.ErrNotFound)
	}
	digest = filepath.Base(real)
	if !strings.HasPrefix(digest, "sha256:") {
		return "", 0, fmt.Errorf("image %s leads to %s: %w", ref, digest, vm.ErrNotFound)
	}
	layers, err = d.layerBytes(real)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, fmt.Errorf("image %s is not complete, of its disk something is missing: %w", ref, vm.ErrNotFound)
	}
	if err != nil {
		return "", 0, fmt.Errorf("looking for the disk of image %s: %w", ref, err)
	}
	return digest, layers, nil
}

// held names an image on this host by its digest.
func (d *Driver) held(ctx context.Context, ref string) (string, error) {
	digest, err := d.Digest(ctx, ref)
	if err != nil {
		return "", err
	}
	m := referencePattern.FindStringSubmatch(ref)
	return m[1] + "/" + m[2] + "@" + digest, nil
}

// Images lists what `tart list` shows of its OCI cache, but for names that lead
// nowhere.
func (d *Driver) Images(ctx context.Context) ([]vm.Image, error) {
	listing, cancel := context.WithTimeout(ctx, d.query)
	defer cancel()
	out, err := d.tart(listing, "list", "--source", "oci", "--format", "json")
	if err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	listed, err := parseImages([]byte(out))
	if err != nil {
		return nil, err
	}
	var images []vm.Image
	for _, i := range listed {
		var layers int64
		i.Digest, layers, err = d.image(i.Name)
		switch {
		case errors.Is(err, vm.ErrNotFound), errors.Is(err, vm.ErrInvalidReference):
			continue
		case err != nil:
			return nil, err
		}
		i.SizeBytes += layers
		images = append(images, i)
	}
	return images, nil
}

// parseImages reads both dialects: sizes as numbers or as text, under the names Size
// or SizeOnDisk; unknown keys are ignored.
func parseImages(data []byte) ([]vm.Image, error) {
	var rows []struct {
		Source     string
		Name       string
		Size       size
		SizeOnDisk size
		Accessed   moment
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("parsing the list of images: %w", err)
	}
	var images []vm.Image
	for _, r := range rows {
		if r.Name == "" || strings.EqualFold(r.Source, "local") {
			continue
		}
		images = append(images, vm.Image{Name: r.Name, SizeBytes: int64(max(r.Size, r.SizeOnDisk)), Accessed: time.Time(r.Accessed)})
	}
	return images, nil
}

// size in bytes: a number, or a text with or without a unit. Without one it is
// decimal gigabytes. What is no size is 0: an image is one all the same.
type size int64

var sizePattern = regexp.MustCompile(`^([0-9]+(?:[.,][0-9]+)?)\s*([KMGT]?)(i?)B?$`)

func (s *size) UnmarshalJSON(data []byte) error {
	*s = 0
	m := sizePattern.FindStringSubmatch(strings.Trim(string(data), "\" "))
	if m == nil {
		return nil
	}
	f, err := strconv.ParseFloat(strings.Replace(m[1], ",", ".", 1), 64)
	if err != nil {
		return nil
	}
	thousand := 1000.0
	if m[3] != "" {
		thousand = 1024
	}
	bytes := f * math.Pow(thousand, float64(strings.Index("?KMGT", m[2])))
	if m[2] == "" {
		bytes = f * 1e9
	}
	if bytes < math.MaxInt64 {
		*s = size(bytes)
	}
	return nil
}

// moment is a time in ISO 8601; anything else is the zero time.
type moment time.Time

func (m *moment) UnmarshalJSON(data []byte) error {
	t, err := time.Parse(time.RFC3339, strings.Trim(string(data), `"`))
	if err != nil {
		t = time.Time{}
	}
	*m = moment(t)
	return nil
}
