package world

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/macfleet/macfleet/sandbox/cluster"
)

// BuildOptions say where the sources are and where finished programs go.
type BuildOptions struct {
	// SourceDir is the root of a checkout; empty means the one around the working
	// directory.
	SourceDir string
	// Prebuilt is the folder of programs that came with a release, laid out as Layout
	// says. Where there is one, and no SourceDir, nothing is built.
	Prebuilt string
	// CacheDir keeps finished builds; empty means "macfleet" in the user's cache
	// directory.
	CacheDir string
	// Progress is told what is being built, one sentence at a time.
	Progress func(string)
}

// ErrNoSource means that there is no checkout of macfleet to build from.
var ErrNoSource = errors.New("there is nothing to run: take a release's sandbox archive, which holds all programs, or build them: run this inside a checkout of macfleet, or name one with --source")

// program is one binary to build.
type program struct {
	pkg, out string
	env      []string
	// version, where it is not the default one.
	version string
}

// Agent is one build of the agent: the folder with the darwin file that a manager
// uploads, and what a simulated Mac runs in its place.
type Agent struct{ Dir, Twin string }

// BuildAgent builds the agent of a checkout as another version into dir: other
// bytes, as a release would have.
func BuildAgent(ctx context.Context, sourceDir, dir, version string) (Agent, error) {
	source, err := findSource(sourceDir)
	if err != nil {
		return Agent{}, err
	}
	agent := Agent{Dir: filepath.Join(dir, "agent"), Twin: filepath.Join(dir, "twin", "tart-kubelet")}
	for _, p := range []program{
		{pkg: "./cmd/tart-kubelet", out: filepath.Join(agent.Dir, "tart-kubelet"), env: []string{"GOOS=darwin", "GOARCH=arm64"}, version: version},
		{pkg: "./cmd/tart-kubelet", out: agent.Twin, version: version},
	} {
		if err := p.build(ctx, source); err != nil {
			return Agent{}, err
		}
	}
	return agent, nil
}

// Build finds the sandbox's programs among what came with a release, or makes them
// from a checkout. The control plane takes minutes the first time and is cached; the
// rest is left to Go's own cache.
//
// Errors: ErrNoSource, ErrIncomplete, and those of cluster.Build.
func Build(ctx context.Context, options BuildOptions) (Binaries, error) {
	if options.SourceDir == "" {
		if binaries, found, err := prebuilt(options.Prebuilt); found || err != nil {
			return binaries, err
		}
	}
	source, err := findSource(options.SourceDir)
	if err != nil {
		return Binaries{}, err
	}
	cache, err := cacheDir(options.CacheDir)
	if err != nil {
		return Binaries{}, err
	}
	report := options.Progress
	if report == nil {
		report = func(string) {}
	}
	controlPlane, err := cluster.Build(ctx, cluster.BuildOptions{
		SourceDir: source, CacheDir: cache, Progress: func(p cluster.Progress) { report(p.String()) },
	})
	if err != nil {
		return Binaries{}, err
	}
	report("building the manager, the agent and the simulated Mac")
	binaries, err := buildOurs(ctx, source, cache)
	binaries.Cluster = controlPlane
	return binaries, err
}

// buildOurs builds what is in the checkout itself, into one folder a checkout, so
// that two checkouts don't overwrite each other's.
func buildOurs(ctx context.Context, source, cache string) (Binaries, error) {
	sum := sha256.Sum256([]byte(source))
	binaries := layoutOurs(filepath.Join(cache, "checkout-"+hex.EncodeToString(sum[:6])))
	darwin := []string{"GOOS=darwin", "GOARCH=arm64"}
	programs := []program{
		{pkg: "./cmd/manager", out: binaries.Manager},
		{pkg: "./cmd/tart-kubelet", out: filepath.Join(binaries.AgentDir, "tart-kubelet"), env: darwin},
		{pkg: "./cmd/tart-kubelet", out: binaries.AgentTwin},
		{pkg: "./sandbox/mac/cmd/macsim", out: filepath.Join(binaries.Mac, "macsim")},
		{pkg: "./sandbox/mac/cmd/macshim", out: filepath.Join(binaries.Mac, "macshim")},
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range programs {
		group.Go(func() error { return p.build(ctx, source) })
	}
	return binaries, group.Wait()
}

func (p program) build(ctx context.Context, source string) error {
	if err := os.MkdirAll(filepath.Dir(p.out), 0o755); err != nil {
		return fmt.Errorf("creating the folder of %s: %w", p.out, err)
	}
	// Renamed when whole: an interrupted build leaves nothing that looks finished,
	// and a running program keeps its file.
	temp := fmt.Sprintf("%s.%d", p.out, os.Getpid())
	flags := "-s -w"
	if p.version != "" {
		flags += " -X main.version=" + p.version
	}
	// grpcnotrace: grpc's tracing calls methods by name, after which the linker has to
	// keep every method of the agent, half as many bytes again.
	compile := cluster.GoCommand{Dir: source, Doing: "building " + p.pkg, Env: append([]string{"CGO_ENABLED=0"}, p.env...)}
	if err := compile.Run(ctx, "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", flags, "-o", temp, p.pkg); err != nil {
		return err
	}
	return finish(temp, p.out)
}

// finish puts a whole build in place. One of the same bytes stays, with its file: Macs of
// another sandbox may run from it, and can show their guests no file that was replaced.
func finish(temp, out string) error {
	if same, err := sameBytes(temp, out); err == nil && same {
		return os.Remove(temp)
	}
	if err := os.Rename(temp, out); err != nil {
		return fmt.Errorf("finishing %s: %w", out, err)
	}
	return nil
}

func sameBytes(a, b string) (bool, error) {
	first, err := os.ReadFile(filepath.Clean(a))
	if err != nil {
		return false, err
	}
	second, err := os.ReadFile(filepath.Clean(b))
	return bytes.Equal(first, second), err
}

// findSource returns the root of the checkout: dir, or the nearest parent of the
// working directory that holds the control plane's module.
func findSource(dir string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "sandbox", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNoSource
		}
		dir = parent
	}
}

func cacheDir(dir string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache directory: %w", err)
	}
	return filepath.Join(user, "macfleet"), nil
}
