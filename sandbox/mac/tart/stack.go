package tart

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// layout is what files a VM is made of.
type layout string

const (
	incomplete layout = ""
	// standalone has a disk of its own.
	standalone layout = "standalone"
	// stacked is a local VM with an overlay over layers of the content store.
	stacked layout = "stacked"
	// stackedRecord is such an image in the cache: it has no disk at all.
	stackedRecord layout = "stacked record"
)

func (vm vmDir) manifest() string { return filepath.Join(string(vm), "manifest.json") }
func (vm vmDir) overlay() string  { return filepath.Join(string(vm), "overlay.asif") }

func (vm vmDir) layout() layout {
	disk, manifest, overlay := exists(vm.disk()), exists(vm.manifest()), exists(vm.overlay())
	switch {
	case !exists(vm.config()) || !exists(vm.nvram()):
		return incomplete
	case disk && !overlay:
		return standalone
	case !disk && manifest && overlay:
		return stacked
	case !disk && manifest:
		return stackedRecord
	}
	return incomplete
}

// runnable reports whether it can be a local VM.
func (vm vmDir) runnable() bool { return vm.layout() == standalone || vm.layout() == stacked }

// Layer is one part of an image's disk.
type Layer struct {
	// Name tells layers apart; two images with the same layer share it.
	Name string `json:"name"`
	// Bytes are what it takes on the volume.
	Bytes int64 `json:"bytes,omitempty"`
}

func (l Layer) digest() string {
	return digestOf(fmt.Appendf(nil, "layer %s of %d bytes", l.Name, l.Bytes))
}

// The annotations of tart's manifests that say what a disk is made of.
const (
	mediaTypes        = "application/vnd.cirruslabs.tart."
	annotations       = "org.cirruslabs.tart."
	contentAnnotation = annotations + "disk-file-content-digest"
	diskAnnotation    = annotations + "uncompressed-disk-size"
)

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	Layers        []manifestLayer   `json:"layers"`
	Annotations   map[string]string `json:"annotations"`
}

type manifestLayer struct {
	MediaType   string            `json:"mediaType"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// manifest puts the configuration first, then the base, its overlays and the nvram.
func (i Image) manifest() manifest {
	m := manifest{SchemaVersion: 2, Annotations: map[string]string{
		diskAnnotation: strconv.FormatInt(int64(i.DiskGB)*1_000_000_000, 10), annotations + "disk.block-size": "512",
	}}
	m.Layers = append(m.Layers, manifestLayer{MediaType: mediaTypes + "config.v1"})
	kind := "disk.v2"
	for _, l := range i.Layers {
		m.Layers = append(m.Layers, manifestLayer{mediaTypes + kind, map[string]string{contentAnnotation: l.digest()}})
		kind = "disk.asif.overlay.v1"
	}
	m.Layers = append(m.Layers, manifestLayer{MediaType: mediaTypes + "nvram.v1"})
	return m
}

func (m manifest) diskBytes() int64 {
	size, _ := strconv.ParseInt(m.Annotations[diskAnnotation], 10, 64)
	return size
}

// contents are the digests of the files that the disk is made of.
func (m manifest) contents() []string {
	var digests []string
	for _, l := range m.Layers {
		if d := l.Annotations[contentAnnotation]; d != "" {
			digests = append(digests, d)
		}
	}
	return digests
}

func (vm vmDir) readManifest() (manifest, error) {
	var m manifest
	data, err := os.ReadFile(vm.manifest())
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return m, fmt.Errorf("reading a manifest: %w", err)
	}
	return m, nil
}

// content is where a file of the content store is.
func (h home) content(digest string) string {
	return filepath.Join(string(h), "cache", "content", "sha256", strings.TrimPrefix(digest, "sha256:"))
}

// whole reports whether everything is there that a clone needs.
func (h home) whole(vm vmDir) bool {
	if vm.layout() != stackedRecord {
		return vm.layout() == standalone
	}
	m, err := vm.readManifest()
	if err != nil {
		return false
	}
	for _, d := range m.contents() {
		if !exists(h.content(d)) {
			return false
		}
	}
	return true
}

// unpackStacked writes the record of an image in layers, and those layers that
// the content store does not have yet.
func (h home) unpackStacked(i Image, to vmDir) error {
	data, err := json.MarshalIndent(i.manifest(), "", "  ")
	if err == nil {
		err = os.WriteFile(to.manifest(), data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing a manifest: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(h.content("")+"/"), 0o755); err != nil {
		return fmt.Errorf("preparing the content store: %w", err)
	}
	for _, l := range i.Layers {
		if path := h.content(l.digest()); !exists(path) {
			if err := os.WriteFile(path, make([]byte, l.Bytes), 0o644); err != nil {
				return fmt.Errorf("storing a layer: %w", err)
			}
		}
	}
	return nil
}

// stackOn makes a clone of a record: a fresh overlay over its layers.
func (h home) stackOn(record, to vmDir) error {
	m, err := record.readManifest()
	if err != nil {
		return err
	}
	for _, d := range m.contents() {
		if !exists(h.content(d)) {
			return runtimeError("VM is missing cached disk content " + d)
		}
	}
	if err := os.WriteFile(to.overlay(), []byte(asifHeader(m.diskBytes())), 0o644); err != nil {
		return fmt.Errorf("making an overlay: %w", err)
	}
	return nil
}

// collectContent removes the layers that no VM and no image refers to.
func (h home) collectContent() error {
	stored, err := os.ReadDir(filepath.Dir(h.content("x")))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the content store: %w", err)
	}
	needed, err := h.neededContent()
	if err != nil {
		return err
	}
	for _, e := range stored {
		if !needed["sha256:"+e.Name()] {
			if err := os.Remove(h.content(e.Name())); err != nil {
				return fmt.Errorf("collecting a layer: %w", err)
			}
		}
	}
	return nil
}

func (h home) neededContent() (map[string]bool, error) {
	vms, err := h.locals()
	if err != nil {
		return nil, err
	}
	images, err := h.cached()
	if err != nil {
		return nil, err
	}
	for _, i := range images {
		vms = append(vms, i.dir)
	}
	temporary, err := filepath.Glob(filepath.Join(h.temporary(), "*"))
	if err != nil {
		return nil, fmt.Errorf("looking at temporary directories: %w", err)
	}
	for _, dir := range temporary {
		vms = append(vms, vmDir(dir))
	}
	needed := map[string]bool{}
	for _, vm := range vms {
		if m, err := vm.readManifest(); err == nil {
			for _, d := range m.contents() {
				needed[d] = true
			}
		}
	}
	return needed, nil
}
