// Package image makes the manager's image without a daemon and without a base
// image: certificates of authorities, a user, the manager, and the agent for Macs.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/macfleet/macfleet/hack/release/archive"
)

// nonRoot is the user that the manager runs as, which the chart names, too.
const nonRoot = "65532"

// Spec is what an image is made of.
type Spec struct {
	// Managers are the manager's file for each architecture of Linux.
	Managers map[string]string
	// Agent is the agent's file for darwin/arm64.
	Agent string
	// Version and Revision are the release's and its commit; Made is the commit's time.
	Version, Revision string
	Made              time.Time
}

// Index is the image for all architectures.
func Index(spec Spec) (v1.ImageIndex, error) {
	base, err := layer(spec.Made, system())
	if err != nil {
		return nil, err
	}
	agent, err := packed(spec.Agent)
	if err != nil {
		return nil, err
	}
	agentLayer, err := layer(spec.Made, []archive.Entry{{Name: "agent/tart-kubelet.gz", Content: agent}})
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{"amd64", "arm64"} {
		manager, err := layer(spec.Made, []archive.Entry{{Name: "manager", Source: spec.Managers[arch], Executable: true}})
		if err != nil {
			return nil, err
		}
		image, err := spec.image(arch, base, agentLayer, manager)
		if err != nil {
			return nil, fmt.Errorf("making the image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	annotated, ok := mutate.Annotations(index, spec.labels()).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("annotating the index gives %T", index)
	}
	return annotated, nil
}

// packed compresses the agent as it travels to Macs, so that a manager need not, and holds none of it.
func packed(file string) ([]byte, error) {
	program, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("packing the agent: %w", err)
	}
	defer program.Close() //nolint:errcheck // only read
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err = io.Copy(z, program)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("packing the agent: %w", err)
	}
	return out.Bytes(), nil
}

func (s Spec) image(arch string, layers ...v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, one := range layers {
		added, err := mutate.Append(image, mutate.Addendum{Layer: one, History: v1.History{Created: v1.Time{Time: s.Made}, CreatedBy: "make image"}})
		if err != nil {
			return nil, err
		}
		image = added
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", arch, v1.Time{Time: s.Made}
	file.Config = v1.Config{
		User: nonRoot + ":" + nonRoot, WorkingDir: "/", Entrypoint: []string{"/manager"},
		Env:    []string{"PATH=/usr/local/bin:/usr/bin:/bin", "SSL_CERT_FILE=/" + certificates},
		Labels: s.labels(),
	}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(image, s.labels()).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("annotating the image gives %T", image)
	}
	return annotated, nil
}

func (s Spec) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":       "macfleet manager",
		prefix + "description": "Apple-silicon Mac minis as Kubernetes nodes, by Cluster API",
		prefix + "source":      "https://github.com/macfleet/macfleet",
		prefix + "licenses":    "Apache-2.0",
		prefix + "version":     s.Version,
		prefix + "revision":    s.Revision,
		prefix + "created":     s.Made.UTC().Format(time.RFC3339),
	}
}

const certificates = "etc/ssl/certs/ca-certificates.crt"

// system is what a program finds in a distroless image.
func system() []archive.Entry {
	return []archive.Entry{
		{Name: "etc/passwd", Content: []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")},
		{Name: "etc/group", Content: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{Name: "etc/nsswitch.conf", Content: []byte("hosts: files dns\n")},
		{Name: certificates, Content: authorities()},
	}
}

// authorities are Mozilla's, without those that it trusts within limits: a file of
// certificates cannot say a limit.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// layer is one layer of an image, owned by root.
func layer(made time.Time, entries []archive.Entry) (v1.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { _ = writer.CloseWithError(archive.Write(writer, made, entries)) }()
		return reader, nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// Names are the files and folders of a layer, with their modes.
func Names(layer v1.Layer) (map[string]int64, error) {
	content, err := layer.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer content.Close() //nolint:errcheck // only read
	names := map[string]int64{}
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		names[header.Name] = header.Mode
	}
}
