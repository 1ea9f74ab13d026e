package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/hack/release/image"
	"github.com/macfleet/macfleet/hack/release/sbom"
	"github.com/macfleet/macfleet/test/helm"
)

var long = flag.Bool("long", false, "make whole releases, which takes minutes")

const (
	// version is the one that docs/install.md names.
	version = "v0.1.0"
	// largest is what a node may have to download.
	largest = 60_000_000
)

// clone is a checkout of a commit at another place.
func clone(t *testing.T, from string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "src")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", from, dir).CombinedOutput(); err != nil {
		t.Fatalf("cloning: %v: %s", err, out)
	}
	return dir
}

// made is a release of a checkout's commit, made in a place of its own.
func made(t *testing.T, from string) string {
	t.Helper()
	binary, err := helm.Binary(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "dist")
	if err := run(t.Context(), []string{"dist", "-root", clone(t, from), "-out", out, "-version", version, "-helm", binary}, testWriter{t}); err != nil {
		t.Fatal(err)
	}
	return out
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(text []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(text)))
	return len(text), nil
}

// TestReleaseIsReproducibleAndRuns makes two releases of the commit, from two
// checkouts, and tries the first.
func TestReleaseIsReproducibleAndRuns(t *testing.T) {
	if !*long {
		t.Skip("takes minutes: make release-test")
	}
	commit := clone(t, filepath.Join("..", "..")) // which stays the same while somebody works on
	first := made(t, commit)
	t.Run("image is small", func(t *testing.T) { imageIsSmall(t, first) })
	t.Run("everything is there", func(t *testing.T) { everythingIsThere(t, first) })
	t.Run("sandbox comes up without Go", func(t *testing.T) { sandboxComesUp(t, first) })
	t.Run("demo", func(t *testing.T) { demoEnds(t, first) })
	t.Run("installs by the page", func(t *testing.T) { installsByThePage(t, commit, first) })
	t.Run("same bytes again", func(t *testing.T) {
		coldCaches(t) // or the second would be compared with what the first compiled
		sameBytes(t, first, made(t, commit))
	})
}

// coldCaches has a test build everything anew but for downloaded modules.
func coldCaches(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("GOCACHE", filepath.Join(dir, "go-build"))
}

func sameBytes(t *testing.T, first, second string) {
	a, b := sums(t, first), sums(t, second)
	if !slices.Equal(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))) {
		t.Errorf("files %q and %q", slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	}
	for name, sum := range a {
		if b[name] != sum {
			t.Errorf("%s differs", name)
		}
	}
	if len(a) < 20 {
		t.Errorf("only %d files compared", len(a))
	}
}

// sums are those of all files below a folder.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			found[name], err = digest(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func imageIsSmall(t *testing.T, dist string) {
	index, tagged, err := image.ReadLayout(filepath.Join(dist, imageDir))
	if err != nil || tagged != version {
		t.Fatalf("the image is of %q: %v", tagged, err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		size, err := image.Size(index, arch)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("linux/%s: %d bytes", arch, size)
		if size > largest {
			t.Errorf("linux/%s: %d bytes, want at most %d", arch, size, largest)
		}
	}
}

func everythingIsThere(t *testing.T, dist string) {
	listed := map[string]bool{}
	text, err := os.Open(filepath.Join(dist, checksums))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	for lines := bufio.NewScanner(text); lines.Scan(); {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		listed[name] = true
		if got, err := digest(filepath.Join(dist, name)); err != nil || got != sum {
			t.Errorf("%s: %s, want %s (%v)", name, got, sum, err)
		}
	}
	for _, name := range []string{
		"macfleet_" + version + "_linux_amd64.tar.gz", "macfleet_" + version + "_linux_arm64.tar.gz",
		"macfleet_" + version + "_darwin_amd64.tar.gz", "macfleet_" + version + "_darwin_arm64.tar.gz",
		"macfleet_" + version + "_linux_amd64_sandbox.tar.gz", "tart-kubelet_" + version + "_darwin_arm64.tar.gz",
		"macfleet-" + strings.TrimPrefix(version, "v") + ".tgz", "macfleet_" + version + ".spdx.json",
		"infrastructure-components.yaml", "metadata.yaml", "cluster-template.yaml", "cluster-template-fleet-mhc.yaml", "cluster-template-topology.yaml", "clusterclass-macfleet.yaml",
	} {
		if !listed[name] {
			t.Errorf("no checksum of %s", name)
		}
	}
	inside, err := exec.CommandContext(t.Context(), "tar", "-tzf", filepath.Join(dist, "macfleet_"+version+"_linux_amd64.tar.gz")).Output()
	if got, want := strings.Fields(string(inside)), []string{"LICENSE", "driver-suite", "kubectl-macfleet", "macfleet", "tart-kubelet"}; err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("the archive of macfleet holds %q, want %q (%v)", got, want, err)
	}
	listing, err := os.ReadFile(filepath.Join(dist, "macfleet_"+version+".spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manager_linux_amd64", "driver-suite_darwin_arm64", "sandbox_controlplane_linux_amd64", "k8s.io/kubernetes", "sandbox_core_linux_amd64", "sigs.k8s.io/cluster-api"} {
		if !bytes.Contains(listing, []byte(`"name": "`+name+`"`)) {
			t.Errorf("the SBOM does not list %s", name)
		}
	}
	entries, err := os.ReadDir(dist)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !ofRelease(entry) {
			t.Errorf("the next release would refuse the folder for %s", entry.Name())
		}
	}
}

// unpacked is the release's sandbox, as somebody has it who has nothing else.
type unpacked struct{ dir, program string }

func unpack(t *testing.T, dist string) unpacked {
	t.Helper()
	if found, err := exec.LookPath("/usr/bin/go"); err == nil {
		t.Fatalf("%s would be found: this proves nothing", found)
	}
	dir, name := t.TempDir(), "macfleet_"+version+"_linux_amd64_sandbox"
	began := time.Now()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(dist, name+".tar.gz"), "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("unpacking: %v: %s", err, out)
	}
	t.Logf("unpacked in %s", time.Since(began).Round(100*time.Millisecond))
	return unpacked{dir: dir, program: filepath.Join(dir, name, "macfleet")}
}

func (u unpacked) macfleet(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, u.program, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + filepath.Join(u.dir, "home")}
	cmd.Dir = u.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// down ends a sandbox with the test.
func (u unpacked) down(t *testing.T) {
	t.Cleanup(func() {
		if out, err := u.macfleet(context.Background(), "sandbox", "down"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
}

func (u unpacked) builtNothing(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(u.dir, "home", ".cache")); err == nil {
		t.Error("something was built, or cached")
	}
}

func sandboxComesUp(t *testing.T, dist string) {
	u := unpack(t, dist)
	if out, err := u.macfleet(t.Context(), "version"); err != nil || out != version+"\n" {
		t.Errorf("version: %q, %v", out, err)
	}
	u.down(t)
	began := time.Now()
	if out, err := u.macfleet(t.Context(), "sandbox", "up", "--hosts", "2", "--replicas", "1"); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	t.Logf("up after %s", time.Since(began).Round(time.Second))
	if out, err := u.macfleet(t.Context(), "sandbox", "kubectl", "wait", "-n", "macfleet-system", "machinedeployment/macfleet-builders",
		"--for=jsonpath={.status.availableReplicas}=1", "--timeout=5m"); err != nil {
		t.Errorf("the fleet: %v\n%s", err, out)
	}
	u.builtNothing(t)
}

// demoEnds is the first thing that people do with a release. How long it may take is in
// docs/figures.md: a machine that does other things as well fails no test.
func demoEnds(t *testing.T, dist string) {
	u := unpack(t, dist)
	before, _ := os.ReadFile("/proc/loadavg")
	began := time.Now()
	out, err := u.macfleet(t.Context(), "sandbox", "demo")
	if err != nil {
		u.down(t)
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("from the unpacked release to the end of the demo: %s, load at the start %s\n%s", time.Since(began).Round(100*time.Millisecond), before, out)
	u.builtNothing(t)
}

func TestAVersionThatTheChartIsNotOfIsRefused(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"0.1.0", "such as v0.1.0"}, {"v0.1", "such as v0.1.0"}, {"v9.1.0", "make generate"}, {"v0.1.0-rc.1", "make generate"}, {"", "such as v0.1.0"}, {"v0.1.0 ", "such as v0.1.0"},
	} {
		err := run(t.Context(), []string{"image", "-root", filepath.Join("..", ".."), "-out", t.TempDir(), "-version", c.given}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.given, err, c.want)
		}
	}
	for _, given := range []string{"v0.1.0", "v0.1.0-dev"} {
		r := &release{root: filepath.Join("..", ".."), version: given}
		if err := r.checkVersion(); err != nil {
			t.Error(err)
		}
	}
}

func TestASeriesThatClusterctlDoesNotKnowIsRefused(t *testing.T) {
	metadata := []byte("releaseSeries: [{major: 0, minor: 1, contract: v1beta2}]")
	if err := (&release{version: "v0.1.7"}).checkSeries(metadata); err != nil {
		t.Error(err)
	}
	if err := (&release{version: "v0.2.0"}).checkSeries(metadata); err == nil || !strings.Contains(err.Error(), "0.2") {
		t.Errorf("%v: want that 0.2 is missing", err)
	}
}

// A folder that is named by mistake keeps its files.
func TestOnlyAnEarlierReleaseIsRemoved(t *testing.T) {
	release := []string{
		checksums, checksums + ".sigstore.json", "infrastructure-components.yaml", "metadata.yaml", "cluster-template.yaml",
		"cluster-template-topology.yaml", "clusterclass-macfleet.yaml", "macfleet-0.0.9.tgz", "macfleet_v0.0.9.spdx.json",
		"macfleet_v0.0.9_linux_amd64.tar.gz", "macfleet_v0.0.9_linux_amd64_sandbox.tar.gz", "tart-kubelet_v0.0.9_darwin_arm64.tar.gz", "image/index.json",
	}
	for name, c := range map[string]struct {
		files []string
		says  string
	}{
		"nothing":               {},
		"a release":             {files: release},
		"an image":              {files: []string{"image/index.json"}},
		"other files":           {files: []string{"letter.txt"}, says: "holds files that are no release"},
		"a release, unfinished": {files: release[1:], says: "holds files that are no release"},
		"others' checksums":     {files: []string{checksums, "letter.txt"}, says: "holds letter.txt, which is of no release"},
		"a file beside":         {files: append([]string{"letter.txt"}, release...), says: "holds letter.txt, which is of no release"},
		"a folder beside":       {files: append([]string{"macfleet_v0.0.9.tar.gz/letter.txt"}, release...), says: "holds macfleet_v0.0.9.tar.gz, which is of no release"},
	} {
		t.Run(name, func(t *testing.T) {
			out := folderOf(t, c.files)
			if err := emptyOut(out); (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			want := len(c.files)
			if c.says == "" {
				want = 0
			}
			if left := sums(t, out); len(left) != want {
				t.Errorf("%q is left, want %d files", slices.Sorted(maps.Keys(left)), want)
			}
		})
	}
}

func folderOf(t *testing.T, files []string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("dear"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func described(t *testing.T, r *release, program string) []byte {
	t.Helper()
	text, err := sbom.Describe(r.version, r.made, map[string]string{"a": program, "b": program})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The SBOM lists what the linker put in, once each.
func TestSBOMListsTheModulesOfThePrograms(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &release{version: version, made: time.Unix(1_700_000_000, 0)}
	first := described(t, r, self)
	if !bytes.Equal(first, described(t, r, self)) {
		t.Error("two descriptions differ")
	}
	var document struct {
		SPDXVersion  string
		CreationInfo struct{ Created string }
		Packages     []struct{ Name, SPDXID string }
	}
	if err := json.Unmarshal(first, &document); err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, one := range document.Packages {
		names[one.Name]++
	}
	for _, want := range []string{"a", "b", "stdlib", "github.com/google/go-containerregistry"} {
		if names[want] != 1 {
			t.Errorf("%s is listed %d times", want, names[want])
		}
	}
	if document.SPDXVersion != "SPDX-2.3" || document.CreationInfo.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("%s of %s", document.SPDXVersion, document.CreationInfo.Created)
	}
}

func TestTheSBOMListsTheSandboxsPrograms(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &release{version: version, made: time.Unix(1_700_000_000, 0), work: t.TempDir(), out: t.TempDir()}
	places := slices.Collect(maps.Values(sandboxPrograms(r.sandbox())))
	for name := range programs() {
		places = append(places, r.built(name))
	}
	for _, place := range places {
		if err := link(self, place); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.describe(); err != nil {
		t.Fatal(err)
	}
	listing, err := os.ReadFile(filepath.Join(r.out, "macfleet_"+version+".spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manager_linux_amd64", "sandbox_controlplane_linux_amd64", "sandbox_core_linux_amd64", "sandbox_tart-kubelet_linux_amd64", "sandbox_macsim_linux_amd64", "sandbox_macshim_linux_amd64"} {
		if !bytes.Contains(listing, []byte(`"name": "`+name+`"`)) {
			t.Errorf("the SBOM does not list %s", name)
		}
	}
}
