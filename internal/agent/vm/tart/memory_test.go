package tart

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// What is told of an image is what its clones are raised to.
func TestLeastMemory(t *testing.T) {
	for name, image := range map[string]map[string]any{"a disk": {"memoryMinMB": 6144}, "layers": inLayers()} {
		t.Run(name, func(t *testing.T) {
			image["memoryMinMB"] = 6144
			f := newFake(t, map[string]any{"version": "2.36.0", "images": map[string]any{fakeImage: image}})
			if _, err := f.LeastMemory(t.Context(), fakeImage); !errors.Is(err, vm.ErrNotFound) {
				t.Errorf("of one that is not here: %v", err)
			}
			digest, err := f.Pull(t.Context(), fakeImage, vm.PullOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Create(t.Context(), "tk-a-0", fakeImage, vm.Shape{MemoryBytes: 1 << 30}); err != nil {
				t.Fatal(err)
			}
			clone, err := readConfig(f.configFile("tk-a-0"))
			if err != nil {
				t.Fatal(err)
			}
			for _, ref := range []string{fakeImage, "registry.test:5000/macos/base@" + digest} {
				if got, err := f.LeastMemory(t.Context(), ref); got != 6<<30 || got != clone.MemorySizeMin || err != nil {
					t.Errorf("%s needs %d, its clone %d, %v", ref, got, clone.MemorySizeMin, err)
				}
			}
		})
	}
}

// A registry may give a configuration of any size.
func TestAConfigurationIsReadWithinBounds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	for size, says := range map[int]string{maxConfig: "", maxConfig + 1: "is longer than 1048576 bytes"} {
		if err := os.WriteFile(file, append([]byte("{}"), bytes.Repeat([]byte(" "), size-len("{}"))...), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readConfig(file)
		if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%d bytes: %v, want %q", size, err, says)
		}
	}
}

// A manifest without end is no image's, and so hides no others.
func TestAManifestIsReadWithinBounds(t *testing.T) {
	image, d := t.TempDir(), New(Options{Path: "/bin/false", Home: t.TempDir()})
	text := []byte(`{"layers":[{"annotations":{"` + contentAnnotation + `":"sha256:` + strings.Repeat("a", 64) + `"}}]}`)
	for size, fits := range map[int]bool{maxManifest: true, maxManifest + 1: false} {
		padded := append(bytes.Clone(text), bytes.Repeat([]byte(" "), size-len(text))...)
		if err := os.WriteFile(filepath.Join(image, "manifest.json"), padded, 0o600); err != nil {
			t.Fatal(err)
		}
		files, err := d.layers(image)
		if fits && (err != nil || len(files) != 1) || !fits && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%d bytes: %d layers, %v", size, len(files), err)
		}
	}
}
