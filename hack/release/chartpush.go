package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/macfleet/macfleet/hack/release/chart"
)

// pushChart puts the packaged chart into a registry below a repository, as helm push
// does, and returns the reference with the digest.
func (r *release) pushChart(ctx context.Context, repository string) (string, error) {
	files, err := filepath.Glob(filepath.Join(r.out, "macfleet-*.tgz"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("%d packaged charts in %s, where one is pushed: run make release-dry-run", len(files), r.out)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return "", fmt.Errorf("reading the chart: %w", err)
	}
	artifact, about, err := chart.Artifact(content)
	if err != nil {
		return "", err
	}
	var said struct{ Name, Version string }
	if err := json.Unmarshal(about, &said); err != nil {
		return "", fmt.Errorf("reading the chart: %w", err)
	}
	tag, err := name.NewTag(path.Join(repository, said.Name) + ":" + said.Version)
	if err != nil {
		return "", fmt.Errorf("naming the chart: %w", err)
	}
	if err := remote.Write(tag, artifact, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("pushing %s: %w", tag, err)
	}
	digest, err := artifact.Digest()
	return fmt.Sprintf("%s@%s", tag, digest), err
}
