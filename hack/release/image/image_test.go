package image

import (
	"crypto/x509"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// spec is an image of programs that are short texts, written now.
func spec(t *testing.T) Spec {
	t.Helper()
	dir := t.TempDir()
	put := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return Spec{
		Managers: map[string]string{"amd64": put("amd64"), "arm64": put("arm64")}, Agent: put("agent"),
		Version: "v0.1.0", Revision: "abc", Made: time.Unix(1_700_000_000, 0).UTC(),
	}
}

func index(t *testing.T, s Spec) v1.ImageIndex {
	t.Helper()
	made, err := Index(s)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// images are those of an index, by architecture.
func images(t *testing.T, all v1.ImageIndex) map[string]v1.Image {
	t.Helper()
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]v1.Image{}
	for _, one := range manifest.Manifests {
		if found[one.Platform.String()], err = all.Image(one.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func digestOf(t *testing.T, of interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	digest, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func TestTwoBuildsHaveOneDigest(t *testing.T) {
	first, second := spec(t), spec(t)
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(second.Agent, then, then); err != nil {
		t.Fatal(err)
	}
	if a, b := digestOf(t, index(t, first)), digestOf(t, index(t, second)); a != b {
		t.Errorf("%s and %s", a, b)
	}
	second.Managers["arm64"] = second.Managers["amd64"]
	if a, b := digestOf(t, index(t, first)), digestOf(t, index(t, second)); a == b {
		t.Errorf("another manager has the same digest %s", a)
	}
}

func TestImageHoldsWhatTheManagerNeeds(t *testing.T) {
	all := images(t, index(t, spec(t)))
	if len(all) != 2 {
		t.Fatalf("images for %d platforms", len(all))
	}
	for platform, image := range all {
		files := map[string]int64{}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		for _, layer := range layers {
			names, err := Names(layer)
			if err != nil {
				t.Fatal(err)
			}
			for name, mode := range names {
				files[name] = mode
			}
		}
		for name, mode := range map[string]int64{"manager": 0o755, "agent/tart-kubelet.gz": 0o644, "agent/": 0o755, "etc/passwd": 0o644, "etc/ssl/certs/ca-certificates.crt": 0o644} {
			if files[name] != mode {
				t.Errorf("%s: %s has the mode %o, want %o", platform, name, files[name], mode)
			}
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/manager"}) {
			t.Errorf("%s: %q as %q", platform, config.Config.Entrypoint, config.Config.User)
		}
		if got := config.OS + "/" + config.Architecture; got != platform {
			t.Errorf("%s says it is for %s", platform, got)
		}
		for label, want := range map[string]string{"version": "v0.1.0", "revision": "abc", "created": "2023-11-14T22:13:20Z", "licenses": "Apache-2.0"} {
			if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
				t.Errorf("%s: label %s is %q, want %q", platform, label, got, want)
			}
		}
	}
}

// The vendor's API is behind a certificate of a public authority.
func TestAuthoritiesAreReadable(t *testing.T) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities()) {
		t.Fatal("no certificate can be read")
	}
	if found := strings.Count(string(authorities()), "BEGIN CERTIFICATE"); found < 100 {
		t.Errorf("only %d authorities", found)
	}
}

// What a registry gives back is what was put into the folder.
func TestPushedImageComesBackAsItWas(t *testing.T) {
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	made := index(t, spec(t))
	dir := filepath.Join(t.TempDir(), "image")
	for range 2 { // a second time, in place of the first
		if err := WriteLayout(made, dir, "v0.1.0"); err != nil {
			t.Fatal(err)
		}
	}
	repository := strings.TrimPrefix(server.URL, "http://") + "/macfleet/manager"
	pushed, err := Push(t.Context(), dir, repository)
	if err != nil {
		t.Fatal(err)
	}
	if want := repository + ":v0.1.0@" + digestOf(t, made); pushed != want {
		t.Errorf("pushed %s, want %s", pushed, want)
	}
	reference, err := name.ParseReference(repository + ":v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(pulled); err != nil {
		t.Error(err)
	}
	if got, want := digestOf(t, pulled), digestOf(t, made); got != want {
		t.Errorf("pulled %s, want %s", got, want)
	}
	wanted := images(t, made)
	for platform, image := range images(t, pulled) {
		if got, want := digestOf(t, image), digestOf(t, wanted[platform]); got != want {
			t.Errorf("%s: pulled %s, want %s", platform, got, want)
		}
	}
}

func TestNothingToPushIsSaid(t *testing.T) {
	_, err := Push(t.Context(), t.TempDir(), "registry.example/manager")
	if err == nil || !strings.Contains(err.Error(), "run make image") {
		t.Errorf("%v", err)
	}
}
