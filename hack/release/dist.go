package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/macfleet/macfleet/hack/release/archive"
	"github.com/macfleet/macfleet/hack/release/chart"
	"github.com/macfleet/macfleet/hack/release/compile"
	"github.com/macfleet/macfleet/hack/release/components"
	"github.com/macfleet/macfleet/hack/release/image"
	"github.com/macfleet/macfleet/hack/release/sbom"
)

const (
	chartDir      = "charts/macfleet"
	clusterctlDir = "config/clusterctl"
	imageDir      = "image"
	checksums     = "checksums.txt"
)

// agentTags: grpc's tracing calls methods by name, after which the linker has to keep
// every method of the agent, half as many bytes again.
const agentTags = "grpcnotrace"

// programs of the release, by the name that the SBOM gives them.
func programs() map[string]compile.Program {
	all := map[string]compile.Program{
		"manager_linux_amd64":       {Package: "cmd/manager", OS: "linux", Arch: "amd64"},
		"manager_linux_arm64":       {Package: "cmd/manager", OS: "linux", Arch: "arm64"},
		"tart-kubelet_darwin_arm64": {Package: "cmd/tart-kubelet", OS: "darwin", Arch: "arm64", Tags: agentTags},
		"driver-suite_darwin_arm64": {Package: "test/driversuite", OS: "darwin", Arch: "arm64", Tags: agentTags},
	}
	for _, platform := range [][2]string{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}} {
		all["macfleet_"+platform[0]+"_"+platform[1]] = compile.Program{Package: "cmd/macfleet", OS: platform[0], Arch: platform[1]}
	}
	return all
}

// build compiles the programs whose names begin so, into the work folder.
func (r *release) build(ctx context.Context, beginnings ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2) // the go command itself uses all cores
	compiler := compile.Compiler{Root: r.root, Version: r.version}
	for name, program := range programs() {
		if slices.ContainsFunc(beginnings, func(beginning string) bool { return strings.HasPrefix(name, beginning) }) {
			group.Go(func() error { return compiler.Build(ctx, program, r.built(name)) })
		}
	}
	return group.Wait()
}

func (r *release) built(name string) string { return filepath.Join(r.work, name) }

// image writes the image's layout and returns its digest.
func (r *release) image(ctx context.Context) (string, error) {
	r.say("building the manager and the agent")
	if err := r.build(ctx, "manager_", "tart-kubelet_"); err != nil {
		return "", err
	}
	index, err := image.Index(image.Spec{
		Managers: map[string]string{"amd64": r.built("manager_linux_amd64"), "arm64": r.built("manager_linux_arm64")},
		Agent:    r.built("tart-kubelet_darwin_arm64"), Version: r.version, Revision: r.revision, Made: r.made,
	})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(r.out, imageDir)
	if err := image.WriteLayout(index, dir, r.version); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	r.say("image %s in %s", digest, dir)
	return digest.String(), nil
}

// dist makes everything.
func (r *release) dist(ctx context.Context) error {
	if err := emptyOut(r.out); err != nil {
		return err
	}
	digest, err := r.image(ctx)
	if err != nil {
		return err
	}
	r.say("packaging the chart and what clusterctl takes")
	packaged, err := chart.Package(filepath.Join(r.root, chartDir), r.out, chart.Release{Version: r.version, Digest: digest, Made: r.made})
	if err != nil {
		return err
	}
	if err := r.clusterctl(ctx, packaged); err != nil {
		return err
	}
	r.say("building the command-line tool")
	if err := r.build(ctx, "macfleet_", "driver-suite_"); err != nil {
		return err
	}
	if err := r.archives(); err != nil {
		return err
	}
	if err := r.sandboxArchive(ctx); err != nil {
		return err
	}
	if err := r.describe(); err != nil {
		return err
	}
	return writeChecksums(r.out)
}

// emptyOut empties a folder that holds a release, or an image, of an earlier run. Any other that
// is not empty is refused: its files would be lost, or be in the checksums.
func emptyOut(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return fmt.Errorf("looking into %s: %w", out, err)
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(out, checksums)); err != nil && !onlyImage(entries) {
			return fmt.Errorf("%s holds files that are no release: name another folder", out)
		}
	}
	if i := slices.IndexFunc(entries, func(entry fs.DirEntry) bool { return !ofRelease(entry) }); i >= 0 {
		return fmt.Errorf("%s holds %s, which is of no release: name another folder", out, entries[i].Name())
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(out, entry.Name())); err != nil {
			return fmt.Errorf("emptying %s: %w", out, err)
		}
	}
	return nil
}

// ofRelease reports that a release of some version, or who signs one, writes what bears this name.
func ofRelease(entry fs.DirEntry) bool {
	if entry.IsDir() {
		return entry.Name() == imageDir
	}
	return slices.ContainsFunc([]string{
		checksums, checksums + ".sigstore.json", "macfleet_*.spdx.json", "macfleet_*.tar.gz", "tart-kubelet_*.tar.gz", "macfleet-*.tgz",
		"infrastructure-components.yaml", "metadata.yaml", "cluster-template*.yaml", "clusterclass-*.yaml",
	}, func(pattern string) bool {
		matches, err := path.Match(pattern, entry.Name())
		return err == nil && matches
	})
}

func onlyImage(entries []fs.DirEntry) bool { return len(entries) == 1 && entries[0].Name() == imageDir }

// clusterctl writes the files of a provider's repository.
func (r *release) clusterctl(ctx context.Context, packaged string) error {
	rendered, err := components.Render(ctx, r.helm, packaged, filepath.Join(r.root, chartDir, "crds"))
	if err != nil {
		return err
	}
	files := map[string][]byte{"infrastructure-components.yaml": rendered}
	for _, pattern := range []string{"metadata.yaml", "cluster-template*.yaml", "clusterclass-*.yaml"} {
		found, err := filepath.Glob(filepath.Join(r.root, clusterctlDir, pattern))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("no %s in %s: %w", pattern, clusterctlDir, cmp.Or(err, fs.ErrNotExist))
		}
		for _, file := range found {
			if files[filepath.Base(file)], err = os.ReadFile(file); err != nil {
				return fmt.Errorf("reading clusterctl's files: %w", err)
			}
		}
	}
	if err := r.checkSeries(files["metadata.yaml"]); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(r.out, name), content, 0o644); err != nil {
			return fmt.Errorf("writing clusterctl's files: %w", err)
		}
	}
	return nil
}

// checkSeries refuses a version whose series clusterctl would not know.
func (r *release) checkSeries(metadata []byte) error {
	var known struct {
		ReleaseSeries []struct{ Major, Minor int }
	}
	if err := yaml.Unmarshal(metadata, &known); err != nil {
		return fmt.Errorf("reading metadata.yaml: %w", err)
	}
	major, minor := series(r.version)
	for _, one := range known.ReleaseSeries {
		if fmt.Sprint(one.Major) == major && fmt.Sprint(one.Minor) == minor {
			return nil
		}
	}
	return fmt.Errorf("%s/metadata.yaml lists no series %s.%s: add it with its contract", clusterctlDir, major, minor)
}

// archives packs the command-line tool for each platform, with the agent that it
// prepares Macs with and the suite of its driver, and the agent alone.
func (r *release) archives() error {
	license := archive.Entry{Name: "LICENSE", Source: filepath.Join(r.root, "LICENSE")}
	agent := archive.Entry{Name: "tart-kubelet", Source: r.built("tart-kubelet_darwin_arm64"), Executable: true}
	for name := range programs() {
		platform, isCLI := strings.CutPrefix(name, "macfleet_")
		if !isCLI {
			continue
		}
		file := filepath.Join(r.out, fmt.Sprintf("macfleet_%s_%s.tar.gz", r.version, platform))
		entries := []archive.Entry{
			license, agent,
			{Name: "driver-suite", Source: r.built("driver-suite_darwin_arm64"), Executable: true},
			{Name: "macfleet", Source: r.built(name), Executable: true},
			{Name: "kubectl-macfleet", Link: "macfleet"},
		}
		if err := archive.WriteGzip(file, r.made, entries); err != nil {
			return err
		}
	}
	file := filepath.Join(r.out, fmt.Sprintf("tart-kubelet_%s_darwin_arm64.tar.gz", r.version))
	return archive.WriteGzip(file, r.made, []archive.Entry{license, agent})
}

func (r *release) describe() error {
	built := sandboxPrograms(r.sandbox())
	for name := range programs() {
		built[name] = r.built(name)
	}
	text, err := sbom.Describe(r.version, r.made, built)
	if err != nil {
		return err
	}
	file := filepath.Join(r.out, fmt.Sprintf("macfleet_%s.spdx.json", r.version))
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("writing the SBOM: %w", err)
	}
	return nil
}

// writeChecksums lists the files of the folder as sha256sum -c reads it. The image is
// left out: its files are named by their digests.
func writeChecksums(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return fmt.Errorf("writing the checksums: %w", err)
	}
	var lines strings.Builder
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == checksums {
			continue
		}
		sum, err := digest(filepath.Join(out, entry.Name()))
		if err != nil {
			return fmt.Errorf("writing the checksums: %w", err)
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, entry.Name())
	}
	if err := os.WriteFile(filepath.Join(out, checksums), []byte(lines.String()), 0o644); err != nil {
		return fmt.Errorf("writing the checksums: %w", err)
	}
	return nil
}

func digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
