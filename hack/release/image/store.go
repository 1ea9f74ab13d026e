package image

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const refName = "org.opencontainers.image.ref.name"

// WriteLayout puts an index into a folder as an OCI image layout, in place of what
// was there.
func WriteLayout(index v1.ImageIndex, dir, version string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the image before: %w", err)
	}
	path, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: version}))
	}
	if err != nil {
		return fmt.Errorf("writing the image's layout: %w", err)
	}
	return nil
}

// ErrNoImage means that a layout does not hold the one image that is looked for.
var ErrNoImage = errors.New("no image here: run make image")

// ReadLayout reads what WriteLayout wrote, and the version it was written with.
func ReadLayout(dir string) (index v1.ImageIndex, version string, err error) {
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNoImage, err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return nil, "", err
	}
	if len(manifest.Manifests) != 1 {
		return nil, "", fmt.Errorf("%w: %s holds %d", ErrNoImage, dir, len(manifest.Manifests))
	}
	only := manifest.Manifests[0]
	index, err = all.ImageIndex(only.Digest)
	return index, only.Annotations[refName], err
}

// Push puts the index of a layout into a repository of a registry, with its version as tag,
// and returns the reference with the digest.
func Push(ctx context.Context, dir, repository string) (string, error) {
	index, version, err := ReadLayout(dir)
	if err != nil {
		return "", err
	}
	tag, err := name.NewTag(repository + ":" + version)
	if err != nil {
		return "", fmt.Errorf("naming the image: %w", err)
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("pushing %s: %w", tag, err)
	}
	digest, err := index.Digest()
	return fmt.Sprintf("%s@%s", tag, digest), err
}

// Size is how many bytes a node of the architecture downloads.
func Size(index v1.ImageIndex, arch string) (int64, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return 0, err
	}
	for _, one := range manifest.Manifests {
		if !match.Platforms(v1.Platform{OS: "linux", Architecture: arch})(one) {
			continue
		}
		image, err := index.Image(one.Digest)
		if err != nil {
			return 0, err
		}
		content, err := image.Manifest()
		if err != nil {
			return 0, err
		}
		total := content.Config.Size
		for _, layer := range content.Layers {
			total += layer.Size
		}
		return total, nil
	}
	return 0, fmt.Errorf("no image for linux/%s", arch)
}
