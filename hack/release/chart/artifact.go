package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Media types of charts in registries: helm.sh/docs/topics/registries.
const (
	configType  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	contentType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Artifact is a packaged chart as registries keep it, and its Chart.yaml in JSON.
func Artifact(packaged []byte) (v1.Image, []byte, error) {
	about, err := about(packaged)
	if err != nil {
		return nil, nil, err
	}
	image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(packaged, contentType))
	if err != nil {
		return nil, nil, fmt.Errorf("putting the chart into a layer: %w", err)
	}
	return &artifact{Image: image, config: about}, about, nil
}

// artifact is an image whose configuration is the chart's.
type artifact struct {
	v1.Image
	config []byte
}

func (a *artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

func (a *artifact) ConfigName() (v1.Hash, error) { return partial.ConfigName(a) }

func (a *artifact) Size() (int64, error) { return partial.Size(a) }

func (a *artifact) Digest() (v1.Hash, error) { return partial.Digest(a) }

func (a *artifact) RawManifest() ([]byte, error) { return partial.RawManifest(a) }

func (a *artifact) Manifest() (*v1.Manifest, error) {
	manifest, err := a.Image.Manifest()
	if err != nil {
		return nil, err
	}
	manifest = manifest.DeepCopy()
	hash, size, err := v1.SHA256(bytes.NewReader(a.config))
	manifest.Config = v1.Descriptor{MediaType: configType, Digest: hash, Size: size}
	return manifest, err
}

// about is a packaged chart's Chart.yaml, in JSON.
func about(packaged []byte) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(packaged))
	if err != nil {
		return nil, fmt.Errorf("unpacking the chart: %w", err)
	}
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if err != nil {
			return nil, fmt.Errorf("looking for the chart's Chart.yaml: %w", err)
		}
		if header.Name != aboutFile {
			continue
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			return nil, fmt.Errorf("reading the chart's Chart.yaml: %w", err)
		}
		return yaml.YAMLToJSON(text)
	}
}
