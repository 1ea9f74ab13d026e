package tart

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/macfleet/macfleet/internal/filetree"
)

// After 2.35 an image may come in layers: its directory then has a manifest and no
// disk, and the layers are files of a store that all images and machines share.

// contentAnnotation is where a manifest's layer names a file of the store.
const contentAnnotation = "org.cirruslabs.tart.disk-file-content-digest"

var contentPattern = regexp.MustCompile(`^sha256:([0-9a-f]{64})$`)

// layers are the files of the store that an image is made of, none for one that has
// a disk of its own. It fails with fs.ErrNotExist for an image that has neither.
func (d *Driver) layers(image string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(image, "disk.img")); !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	data, err := readAtMost(filepath.Join(image, "manifest.json"), maxManifest)
	if errors.Is(err, errTooLong) {
		return nil, fmt.Errorf("reading its manifest: %w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Layers []struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, fmt.Errorf("parsing its manifest: %w: %w", fs.ErrNotExist, err)
	}
	var files []string
	for _, l := range manifest.Layers {
		if m := contentPattern.FindStringSubmatch(l.Annotations[contentAnnotation]); m != nil {
			files = append(files, filepath.Join(d.home, "cache", "content", "sha256", m[1]))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("a manifest without layers: %w", fs.ErrNotExist)
	}
	return files, nil
}

// layerBytes is what the layers of an image take on the volume, those it shares with
// others included. It fails with fs.ErrNotExist when one is missing.
func (d *Driver) layerBytes(image string) (int64, error) {
	files, err := d.layers(image)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			return 0, err
		}
		sum += filetree.OnDisk(st)
	}
	return sum, nil
}
