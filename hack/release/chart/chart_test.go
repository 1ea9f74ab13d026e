package chart

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/macfleet/macfleet/test/helm"
)

var (
	root     = filepath.Join("..", "..", "..")
	chartDir = filepath.Join(root, "charts", "macfleet")
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func packaged(t *testing.T) string {
	t.Helper()
	return packagedAs(t, "v0.1.0-rc.1", digest)
}

func packagedAs(t *testing.T, version, digest string) string {
	t.Helper()
	file, err := Package(chartDir, t.TempDir(), Release{Version: version, Digest: digest, Made: time.Unix(1_700_000_000, 0)})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// runHelm runs the helm that people have, and returns what it prints.
func runHelm(t *testing.T, args ...string) string {
	t.Helper()
	binary, err := helm.Binary(root)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestTwoPackagesAreTheSame(t *testing.T) {
	first, err := os.ReadFile(packaged(t))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(packaged(t))
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("%d and %d bytes that are not the same (%v)", len(first), len(second), err)
	}
}

func TestPackagedChartNamesItsRelease(t *testing.T) {
	file := packaged(t)
	if filepath.Base(file) != "macfleet-0.1.0-rc.1.tgz" {
		t.Errorf("the chart is %s", file)
	}
	about := runHelm(t, "show", "chart", file)
	for _, line := range []string{"version: 0.1.0-rc.1\n", "appVersion: v0.1.0-rc.1\n"} {
		if !strings.Contains(about, line) {
			t.Errorf("no %q in\n%s", line, about)
		}
	}
	rendered := runHelm(t, "template", "macfleet", file, "--set", "fleets.builders.zone=fr-par-1")
	for _, want := range []string{"image: ghcr.io/macfleet/manager:v0.1.0-rc.1@" + digest, `agentVersion: "v0.1.0-rc.1"`} {
		if !strings.Contains(rendered, want) {
			t.Errorf("it does not render %q", want)
		}
	}
}

// People copy a release's values, and keep them for the next: that one's image must not be
// this one's.
func TestValuesOfAReleaseDoNotKeepItsImage(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte(runHelm(t, "show", "values", packaged(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	later := "sha256:" + strings.Repeat("9", 64)
	rendered := runHelm(t, "template", "macfleet", packagedAs(t, "v0.1.0", later), "--values", values, "--set", "fleets.builders.zone=fr-par-1")
	// The manager's, and those of the Jobs before an upgrade and an uninstallation.
	if want := "image: ghcr.io/macfleet/manager:v0.1.0@" + later + "\n"; strings.Count(rendered, want) != 3 || strings.Contains(rendered, digest) {
		t.Errorf("with the values of the release before it does not render %q three times:\n%s", want, rendered)
	}
}

// A line that is no longer there, or there twice, is no release without its digest.
func TestAChartWithoutALineForTheDigestIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(chartDir)); err != nil {
		t.Fatal(err)
	}
	about := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(about)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(about, bytes.ReplaceAll(text, []byte("image-digest:"), []byte("image-checksum:")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Package(dir, t.TempDir(), Release{Version: "v0.1.0", Digest: digest}); err == nil || !strings.Contains(err.Error(), "digest:") {
		t.Errorf("%v: want a refusal that names the line", err)
	}
}

// helm takes the chart from a registry as it was packaged, whoever brought it there.
func TestPushedChartIsPulledByHelm(t *testing.T) {
	for name, push := range map[string]func(t *testing.T, file, charts string){
		"by a release": pushArtifact,
		"by a person": func(t *testing.T, file, charts string) {
			runHelm(t, "push", file, "oci://"+charts, "--plain-http")
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
			t.Cleanup(server.Close)
			file, charts, into := packaged(t), strings.TrimPrefix(server.URL, "http://")+"/charts", t.TempDir()
			push(t, file, charts)
			runHelm(t, "pull", "oci://"+charts+"/macfleet", "--version", "0.1.0-rc.1", "--plain-http", "--destination", into)
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if pulled, err := os.ReadFile(filepath.Join(into, filepath.Base(file))); err != nil || !bytes.Equal(content, pulled) {
				t.Errorf("%d bytes of %d came back (%v)", len(pulled), len(content), err)
			}
		})
	}
}

func pushArtifact(t *testing.T, file, charts string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	artifact, _, err := Artifact(content)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(charts + "/macfleet:0.1.0-rc.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, artifact); err != nil {
		t.Fatal(err)
	}
}
