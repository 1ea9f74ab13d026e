package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/macfleet/macfleet/sandbox/buildcache"
)

const (
	// lockPoll is how often a builder looks whether another one that builds the same has finished.
	lockPoll = 200 * time.Millisecond
	// keepUnused is how long a cached build stays that nobody asks for: one takes 240 MB.
	keepUnused = 14 * 24 * time.Hour
)

// BuildOptions say what to build, and where to. The zero value builds the checkout around the working directory into
// the user's cache and reports nothing.
type BuildOptions struct {
	// SourceDir is the root of a checkout; empty means the one around the working directory.
	SourceDir string
	// CacheDir keeps finished builds; empty means "macfleet" in the user's cache directory.
	CacheDir string
	// Progress is called, from one goroutine at a time, when there is something new to tell.
	Progress func(Progress)
}

// Build returns the binaries of the sources in SourceDir: at once when the cache has them, after compiling otherwise.
// Compiling takes 5 to 10 minutes on two cores the first time, and some 20 seconds after a small change. Several
// builders of the same sources, in any processes, share one build.
//
// Errors: ErrNotLinux, ErrNoGo, ErrNoSource, ErrNoSpace, *CompileError, and ctx's.
func Build(ctx context.Context, options BuildOptions) (Binaries, error) {
	if err := supported(); err != nil {
		return Binaries{}, err
	}
	b, err := newBuilder(ctx, options)
	if err != nil {
		return Binaries{}, err
	}
	if binaries, hit := b.cached(); hit {
		return binaries, nil
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	if binaries, hit := b.cached(); hit { // another builder has just finished
		return binaries, nil
	}
	return b.build(ctx)
}

// builder makes one entry of the cache.
type builder struct {
	module   string // the folder of the control plane's module
	cacheDir string
	entry    string // the finished build, once it exists
	report   func(Progress)
	began    time.Time
}

func newBuilder(ctx context.Context, options BuildOptions) (*builder, error) {
	source, err := findSource(options.SourceDir)
	if err != nil {
		return nil, err
	}
	cacheDir, err := prepareCacheDir(options.CacheDir)
	if err != nil {
		return nil, err
	}
	key, err := cacheKey(ctx, source)
	if err != nil {
		return nil, err
	}
	report := options.Progress
	if report == nil {
		report = func(Progress) {}
	}
	return &builder{
		module:   filepath.Join(source, moduleDir),
		cacheDir: cacheDir,
		entry:    filepath.Join(cacheDir, entryPrefix+key),
		report:   report,
		began:    time.Now(),
	}, nil
}

func prepareCacheDir(dir string) (string, error) {
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding the user's cache directory: %w", err)
		}
		dir = filepath.Join(user, "macfleet")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolving the cache directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache directory: %w", err)
	}
	return dir, nil
}

// cached returns the finished build and marks it as used.
func (b *builder) cached() (Binaries, bool) {
	if !buildcache.Use(b.entry) {
		return Binaries{}, false
	}
	return Layout(b.entry), true
}

// lock waits until no other builder works on the same entry.
func (b *builder) lock(ctx context.Context) (unlock func(), err error) {
	return Lock(ctx, b.entry+".lock", func() { b.tell(Progress{Stage: StageWaiting}) })
}

// Lock waits until no other process has the lock of that file, which it makes, and takes it. waiting, which may be nil,
// is called each time that it looks in vain. A process that dies holds nothing.
func Lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the build: %w", err)
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		locked, err := tryLock(file)
		if locked {
			return func() { file.Close() }, nil //nolint:errcheck // closing is what unlocks, nothing was written
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if waiting != nil {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-ticker.C:
		}
	}
}

// build compiles into a folder beside the entry and renames it when everything is there.
func (b *builder) build(ctx context.Context) (Binaries, error) {
	if err := b.checkSpace(ctx); err != nil {
		return Binaries{}, err
	}
	temp, err := os.MkdirTemp(b.cacheDir, tempPrefix)
	if err != nil {
		return Binaries{}, fmt.Errorf("creating a folder to build into: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // renamed away on success; prune removes what stays
	if err := b.compile(ctx, temp); err != nil {
		return Binaries{}, b.explain(ctx, err)
	}
	if err := buildcache.Put(temp, b.entry); err != nil {
		return Binaries{}, err
	}
	prune(b.cacheDir, b.entry, time.Now().Add(-keepUnused))
	b.tell(Progress{Stage: StageDone})
	return Layout(b.entry), nil
}

func (b *builder) tell(p Progress) {
	p.Elapsed = time.Since(b.began)
	b.report(p)
}

// prune removes what nobody has asked for since then: old builds, their locks, and what a killed builder left.
func prune(cacheDir, keep string, since time.Time) {
	buildcache.Prune(cacheDir, since, []string{entryPrefix + "*", tempPrefix + "*"}, keep, keep+".lock")
}
