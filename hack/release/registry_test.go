package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
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
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/macfleet/macfleet/hack/release/chart"
	"github.com/macfleet/macfleet/hack/release/image"
	"github.com/macfleet/macfleet/test/helm"
)

// startRegistry has a registry on loopback, until the test's end, and returns its host and port.
func startRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// pushed brings the image or the chart of a folder to a repository, as the workflow of releases
// does, and returns the reference that is signed.
func pushed(t *testing.T, command, out, repository string) string {
	t.Helper()
	var said bytes.Buffer
	if err := run(t.Context(), []string{command, "-out", out, repository}, &said); err != nil {
		t.Fatal(err)
	}
	reference, found := strings.CutPrefix(strings.TrimSpace(said.String()), "pushed ")
	if !found {
		t.Fatalf("%s says %q", command, said.String())
	}
	return reference
}

// pull has a node's files of an image, below a folder.
func pull(t *testing.T, reference, arch, into string) {
	t.Helper()
	named, err := name.NewDigest(reference)
	if err != nil {
		t.Fatal(err)
	}
	found, err := remote.Image(named, remote.WithContext(t.Context()), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(found)
	defer content.Close()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil && header.Typeflag == tar.TypeReg {
			err = write(filepath.Join(into, header.Name), files, header.FileInfo().Mode())
		}
		if err != nil {
			t.Fatalf("unpacking %s: %v", reference, err)
		}
	}
}

func write(path string, content io.Reader, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// agentIn is the agent for Macs in the files of an image.
func agentIn(t *testing.T, root string) []byte {
	t.Helper()
	packed, err := os.Open(filepath.Join(root, "agent", "tart-kubelet.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	content, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

// small is the folder of a release whose programs are short texts.
func small(t *testing.T) string {
	t.Helper()
	out, programs := t.TempDir(), folderOf(t, []string{"amd64", "arm64", "agent"})
	place := func(name string) string { return filepath.Join(programs, name) }
	for _, name := range []string{"amd64", "arm64", "agent"} {
		if err := os.WriteFile(place(name), []byte("for "+name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	made := time.Unix(1_700_000_000, 0)
	index, err := image.Index(image.Spec{
		Managers: map[string]string{"amd64": place("amd64"), "arm64": place("arm64")}, Agent: place("agent"), Version: "v0.1.0", Revision: "abc", Made: made,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := image.WriteLayout(index, filepath.Join(out, imageDir), "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chart.Package(filepath.Join("..", "..", chartDir), out, chart.Release{Version: "v0.1.0", Digest: digest.String(), Made: made}); err != nil {
		t.Fatal(err)
	}
	return out
}

// Who takes the chart from a registry has it name the image that a node finds there.
func TestTheChartInARegistryNamesTheImageThere(t *testing.T) {
	out, host := small(t), startRegistry(t)
	repository := host + "/macfleet/manager"
	imageThere := pushed(t, "push", out, repository)
	chartThere, _, _ := strings.Cut(pushed(t, "push-chart", out, host+"/macfleet/charts"), ":0.1.0@")
	binary, err := helm.Binary(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := exec.CommandContext(t.Context(), binary, "template", "macfleet", "oci://"+chartThere, "--version", "0.1.0", "--plain-http",
		"--set", "manager.image.repository="+repository, "--set", "fleets.builders.zone=fr-par-1").CombinedOutput()
	if err != nil {
		t.Fatalf("rendering the chart: %v\n%s", err, rendered)
	}
	if !strings.Contains(string(rendered), "          image: "+imageThere+"\n") {
		t.Errorf("the chart does not name %s:\n%s", imageThere, rendered)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		root := t.TempDir()
		pull(t, imageThere, arch, root)
		if manager, err := os.ReadFile(filepath.Join(root, "manager")); err != nil || string(manager) != "for "+arch {
			t.Errorf("linux/%s has the manager %q (%v)", arch, manager, err)
		}
		if agent := agentIn(t, root); string(agent) != "for agent" {
			t.Errorf("linux/%s has the agent %q", arch, agent)
		}
	}
}
