package world

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/macfleet/macfleet/sandbox/buildcache"
	"github.com/macfleet/macfleet/sandbox/cluster"
)

const (
	// entryPrefix begins the names of our entries in the cache, and formerPrefix those of
	// the folders, one a checkout, that were there before.
	entryPrefix, formerPrefix = "programs-", "checkout-"
	// keepUnused is how long such an entry stays that nobody uses: one takes 120 MB, and
	// each change of the sources makes one.
	keepUnused = 24 * time.Hour
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

// buildOurs builds what is in the checkout itself, as an entry of the cache by content:
// Macs that run can show their guests no file that was replaced, so that none ever is.
func buildOurs(ctx context.Context, source, cache string) (Binaries, error) {
	temp, err := os.MkdirTemp(cache, buildcache.TempPrefix)
	if err != nil {
		return Binaries{}, fmt.Errorf("creating a folder to build into: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // renamed away on success; the cache removes what stays
	if err := compileOurs(ctx, source, layoutOurs(temp)); err != nil {
		return Binaries{}, err
	}
	sum, err := contentOf(temp)
	if err != nil {
		return Binaries{}, err
	}
	entry := filepath.Join(cache, entryPrefix+sum)
	if err := buildcache.Put(temp, entry); err != nil {
		return Binaries{}, err
	}
	if found, err := contentOf(entry); err != nil || found != sum {
		return Binaries{}, errors.Join(fmt.Errorf("the finished build in %s was changed: stop the sandboxes that run from it, and remove it", entry), err)
	}
	buildcache.Prune(cache, time.Now().Add(-keepUnused), []string{entryPrefix + "*", formerPrefix + "*"}, entry)
	return layoutOurs(entry), nil
}

func compileOurs(ctx context.Context, source string, to Binaries) error {
	darwin := []string{"GOOS=darwin", "GOARCH=arm64"}
	programs := []program{
		{pkg: "./cmd/manager", out: to.Manager},
		{pkg: "./cmd/tart-kubelet", out: filepath.Join(to.AgentDir, "tart-kubelet"), env: darwin},
		{pkg: "./cmd/tart-kubelet", out: to.AgentTwin},
		{pkg: "./sandbox/mac/cmd/macsim", out: filepath.Join(to.Mac, "macsim")},
		{pkg: "./sandbox/mac/cmd/macshim", out: filepath.Join(to.Mac, "macshim")},
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range programs {
		group.Go(func() error { return p.build(ctx, source) })
	}
	return group.Wait()
}

// contentOf names what the files of a folder hold, and where in it they are.
func contentOf(dir string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error { // in the order of names
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		at, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		hash, err := hashFile(path)
		fmt.Fprintln(sum, at, hash)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading what was built: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

func (p program) build(ctx context.Context, source string) error {
	if err := os.MkdirAll(filepath.Dir(p.out), 0o755); err != nil {
		return fmt.Errorf("creating the folder of %s: %w", p.out, err)
	}
	// Renamed when whole: an interrupted build leaves nothing that looks finished.
	temp := fmt.Sprintf("%s.%d", p.out, os.Getpid())
	flags := "-s -w"
	if p.version != "" {
		flags += " -X main.version=" + p.version
	}
	// grpcnotrace: grpc's tracing calls methods by name, after which the linker has to
	// keep every method of the agent, half as many bytes again.
	// buildvcs: with a commit in them the same sources would be other bytes, and an entry
	// more in the cache.
	compile := cluster.GoCommand{Dir: source, Doing: "building " + p.pkg, Env: p.env}
	if err := compile.Run(ctx, "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", flags, "-o", temp, p.pkg); err != nil {
		return err
	}
	if err := os.Rename(temp, p.out); err != nil {
		return fmt.Errorf("finishing %s: %w", p.out, err)
	}
	return nil
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
