package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	coreModule  = "sigs.k8s.io/cluster-api"
	corePackage = coreModule + "/core"
	kubeModule  = "k8s.io/kubernetes"
	// agnhostPackage is what Kubernetes' own tests run in containers, of the control plane's version.
	agnhostPackage = kubeModule + "/test/images/agnhost"
	// mainPackages are the control plane's, core's and agnhost's.
	mainPackages = 3
	// minimumFree is asked of every disk a build writes to. From nothing it takes 3.2 GB in Go's cache, 0.6 GB of
	// modules, 0.3 GB of results; how much of it is there already, the go command alone knows.
	minimumFree = 1 << 30
	// exhausted is taken for the reason of a failed build.
	exhausted = 128 << 20
)

// buildFlags are one set for every build of the project: Go shares no compiled package between different sets.
func buildFlags() []string { return []string{"-trimpath", "-buildvcs=false"} }

// compile puts the binaries and core's manifests into dir.
func (b *builder) compile(ctx context.Context, dir string) error {
	b.tell(Progress{Stage: StageResolving})
	modules, err := b.modules(ctx)
	if err != nil {
		return err
	}
	stale, err := b.stale(ctx)
	if err != nil {
		return err
	}
	args := append([]string{"build", "-v", "-o", dir + string(filepath.Separator)}, buildFlags()...)
	args = append(args, "-ldflags="+linkerFlags(modules[kubeModule].Version, modules[coreModule].Version), ".", corePackage, agnhostPackage)
	compile := GoCommand{Dir: b.module, Doing: "compiling the control plane", Stderr: b.watch(stale)}
	if err := compile.Run(ctx, args...); err != nil {
		return err
	}
	return copyManifests(modules[coreModule].Dir, filepath.Join(dir, "manifests"))
}

type module struct{ Path, Version, Dir string }

// modules downloads the two modules whose version or files are needed beyond compiling them.
func (b *builder) modules(ctx context.Context) (map[string]module, error) {
	doing := "downloading the modules of the control plane"
	if _, err := goOutput(ctx, b.module, doing, "mod", "download", coreModule, kubeModule); err != nil {
		return nil, err
	}
	output, err := goOutput(ctx, b.module, doing, "list", "-m", "-json", coreModule, kubeModule)
	if err != nil {
		return nil, err
	}
	found := map[string]module{}
	decoder := json.NewDecoder(strings.NewReader(output))
	for decoder.More() {
		var m module
		if err := decoder.Decode(&m); err != nil {
			return nil, fmt.Errorf("reading the versions of the control plane's modules: %w", err)
		}
		found[m.Path] = m
	}
	return found, nil
}

// stale is the set of packages that Go's build cache does not have.
func (b *builder) stale(ctx context.Context) (map[string]bool, error) {
	args := append([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, buildFlags()...)
	output, err := goOutput(ctx, b.module, "listing the packages of the control plane", append(args, ".", corePackage, agnhostPackage)...)
	if err != nil {
		return nil, err
	}
	packages := map[string]bool{}
	for _, path := range strings.Fields(output) {
		packages[path] = true
	}
	return packages, nil
}

// watch turns the names that `go build -v` prints when it begins a package into progress.
func (b *builder) watch(stale map[string]bool) *lineWriter {
	began, told := time.Now(), time.Time{}
	done := 0
	tell := func() {
		now := time.Now()
		linking := done >= len(stale)-mainPackages
		if !linking && now.Sub(told) < time.Second {
			return
		}
		told = now
		b.tell(compiling(done, len(stale), linking, now.Sub(began)))
	}
	tell()
	return &lineWriter{line: func(line string) {
		if stale[line] {
			done++
			tell()
		}
	}}
}

// compiling is the progress of the go command itself. The main packages come last, and are next to nothing to compile:
// once only they are left, linking is what takes the time.
func compiling(done, total int, linking bool, elapsed time.Duration) Progress {
	p := Progress{Stage: StageCompiling, Done: done, Total: total}
	if linking {
		p.Stage, p.Remaining = StageLinking, linkTime
	} else {
		p.Remaining = remaining(done, total, runtime.NumCPU(), elapsed)
	}
	return p
}

// linkerFlags stamp versions, as the originals' builds do: core refuses a server that says no proper version.
func linkerFlags(kubernetes, core string) string {
	flags := []string{"-s", "-w"}
	for _, stamp := range []struct{ variables, version string }{
		{"k8s.io/component-base/version", kubernetes},
		{"k8s.io/client-go/pkg/version", kubernetes},
		{coreModule + "/version", core},
	} {
		major, minor := majorMinor(stamp.version)
		for _, variable := range [][2]string{
			{"gitVersion", stamp.version},
			{"gitMajor", major},
			{"gitMinor", minor},
			{"gitTreeState", "clean"},
			{"gitCommit", strings.Repeat("0", 40)},
			{"buildDate", "1970-01-01T00:00:00Z"},
		} {
			flags = append(flags, "-X", stamp.variables+"."+variable[0]+"="+variable[1])
		}
	}
	return strings.Join(flags, " ")
}

// majorMinor takes "1" and "36" from "v1.36.4".
func majorMinor(version string) (major, minor string) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return "", ""
	}
	return parts[0], parts[1]
}

// copyManifests takes core's CRDs and webhooks out of its module, so that starting needs neither Go nor modules.
func copyManifests(moduleDir, dir string) error {
	config := filepath.Join(moduleDir, "core", "config")
	crds, err := filepath.Glob(filepath.Join(config, "crd", "bases", "*.yaml"))
	if err != nil || len(crds) == 0 {
		return errors.Join(fmt.Errorf("no CRDs in %s", config), err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "crds"), 0o755); err != nil {
		return fmt.Errorf("creating the folder of core's manifests: %w", err)
	}
	if err := copyFile(filepath.Join(config, "webhook", "manifests.yaml"), filepath.Join(dir, webhooksFile)); err != nil {
		return err
	}
	for _, crd := range crds {
		if err := copyFile(crd, filepath.Join(dir, "crds", filepath.Base(crd))); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("reading core's manifests: %w", err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		return fmt.Errorf("copying core's manifests: %w", err)
	}
	return nil
}

// checkSpace refuses a build that would fill a disk, before it does.
func (b *builder) checkSpace(ctx context.Context) error {
	path, free, err := b.leastFree(ctx)
	if err != nil || free >= minimumFree {
		return err
	}
	return fmt.Errorf("%w: %d MB free at %s", ErrNoSpace, free>>20, path)
}

// explain finds a full disk behind a failed build. Compilers report it in many words; the disk itself is clearer.
func (b *builder) explain(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return cause
	}
	if path, free, err := b.leastFree(ctx); err == nil && free < exhausted {
		return fmt.Errorf("%w: %d MB free at %s: %w", ErrNoSpace, free>>20, path, cause)
	}
	return cause
}

// leastFree is the fullest of the disks that a build writes to.
func (b *builder) leastFree(ctx context.Context) (path string, free uint64, err error) {
	output, err := goOutput(ctx, b.module, "asking for Go's folders", "env", "GOCACHE", "GOMODCACHE", "GOTMPDIR")
	if err != nil {
		return "", 0, err
	}
	for _, dir := range append(strings.Split(output, "\n"), b.cacheDir, os.TempDir()) {
		there, err := freeBytes(existing(dir))
		if err != nil {
			return "", 0, err
		}
		if path == "" || there < free {
			path, free = dir, there
		}
	}
	return path, free, nil
}

// existing is the nearest folder at or above dir that exists: caches are made at their first use.
func existing(dir string) string {
	if dir == "" {
		return os.TempDir() // an unset GOTMPDIR
	}
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
