package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/test/helm"
)

// installsByThePage brings a release to a registry, and has the commit's docs/install.md walked
// with what comes out of it.
func installsByThePage(t *testing.T, commit, dist string) {
	host := startRegistry(t)
	image := pushed(t, "push", dist, host+"/macfleet/manager")
	chart, _, _ := strings.Cut(pushed(t, "push-chart", dist, host+"/macfleet/charts"), ":"+strings.TrimPrefix(version, "v")+"@")
	folder := filepath.Dir(unpack(t, dist).program)
	if err := os.Symlink(dist, filepath.Join(folder, "dist")); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(folder, "root")
	pull(t, image, "amd64", root)
	imageHoldsTheRelease(t, root, dist)
	managerIsForARM(t, image)
	walk(t, commit, "-release", folder, "-image", image, "-chart", "oci://"+chart)
}

// imageHoldsTheRelease compares the programs of an image with those in the release's archives.
func imageHoldsTheRelease(t *testing.T, root, dist string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), filepath.Join(root, "manager"), "--version").CombinedOutput(); err != nil || string(out) != version+"\n" {
		t.Errorf("the image's manager says %q, %v; want %s", out, err, version)
	}
	archived, err := exec.CommandContext(t.Context(), "tar", "-xzOf", filepath.Join(dist, "tart-kubelet_"+version+"_darwin_arm64.tar.gz"), "tart-kubelet").Output()
	if err != nil {
		t.Fatal(err)
	}
	if agent := agentIn(t, root); len(archived) == 0 || !bytes.Equal(agent, archived) {
		t.Errorf("the image's agent has %d bytes and is not the %d bytes of its archive", len(agent), len(archived))
	}
}

// managerIsForARM tries what cannot be run here.
func managerIsForARM(t *testing.T, image string) {
	t.Helper()
	root := t.TempDir()
	pull(t, image, "arm64", root)
	built, err := buildinfo.ReadFile(filepath.Join(root, "manager"))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"GOOS": "linux", "GOARCH": "arm64"} {
		if !slices.Contains(built.Settings, debug.BuildSetting{Key: key, Value: want}) {
			t.Errorf("the manager of linux/arm64 was not built with %s=%s: %v", key, want, built.Settings)
		}
	}
}

// walk runs the test that types the page's commands, of a checkout, on a release.
func walk(t *testing.T, checkout string, args ...string) {
	t.Helper()
	binary, err := helm.Binary(filepath.Join("..", ".."))
	if err == nil {
		err = link(binary, filepath.Join(checkout, "bin", "helm")) // where make leaves it
	}
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-timeout", "30m", "-v", "./test/e2e", "-run", "^TestInstallByThePage$", "-args"}, args...)...)
	cmd.Dir = checkout
	cmd.Env = append(os.Environ(), "GOWORK=", "PART=") // this module's has none, and all parts are played
	out, err := cmd.CombinedOutput()
	t.Logf("walked in %s\n%s", time.Since(began).Round(time.Second), out)
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestInstallByThePage")) {
		t.Errorf("docs/install.md does not lead to a Pod: %v", err)
	}
}
