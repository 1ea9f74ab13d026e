package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/sandbox/buildcache"
)

const (
	// moduleDir is where the control plane's module lies in a checkout.
	moduleDir   = "sandbox/controlplane"
	entryPrefix = "controlplane-"
	tempPrefix  = buildcache.TempPrefix
	// layoutVersion changes when the same sources shall give another entry: other flags, other files in it.
	layoutVersion = "3"
)

// findSource returns the root of the checkout: dir, or the nearest folder at or above the working directory that
// holds the control plane's module.
func findSource(dir string) (string, error) {
	if dir != "" {
		if !hasModule(dir) {
			return "", fmt.Errorf("%w in %s", ErrNoSource, dir)
		}
		return filepath.Abs(dir)
	}
	current, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for {
		if hasModule(current) {
			return current, nil
		}
		parent := filepath.Dir(current)
		if parent == current {
			return "", fmt.Errorf("%w at or above the working directory", ErrNoSource)
		}
		current = parent
	}
}

func hasModule(root string) bool {
	_, err := os.Stat(filepath.Join(root, moduleDir, "go.mod"))
	return err == nil
}

// cacheKey names a state of the sources. Equal keys mean equal binaries: it covers the Go version, what decides the
// versions of dependencies, and the module's own code.
func cacheKey(ctx context.Context, source string) (string, error) {
	goVersion, err := goOutput(ctx, source, "asking for the Go version", "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	files, err := keyFiles(source)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, layoutVersion, strings.TrimSpace(goVersion), runtime.GOOS, runtime.GOARCH, buildFlags())
	for _, file := range files {
		if err := hashFile(sum, source, file); err != nil {
			return "", fmt.Errorf("reading %s for the cache key: %w", file, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// keyFiles lists, relative to source, every file that can change what is built. Both go.mod files count: in a
// workspace either can raise a version.
func keyFiles(source string) ([]string, error) {
	var files []string
	for _, file := range []string{"go.work", "go.mod"} {
		if _, err := os.Stat(filepath.Join(source, file)); err == nil {
			files = append(files, file)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading %s for the cache key: %w", file, err)
		}
	}
	err := filepath.WalkDir(filepath.Join(source, moduleDir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !decidesBuild(entry.Name()) {
			return err
		}
		relative, err := filepath.Rel(source, path)
		files = append(files, relative)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the sources of the control plane: %w", err)
	}
	slices.Sort(files)
	return files, nil
}

func decidesBuild(name string) bool {
	return name == "go.mod" || name == "go.sum" || strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

func hashFile(sum hash.Hash, source, name string) error {
	file, err := os.Open(filepath.Join(source, name))
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	content := sha256.New()
	if _, err := io.Copy(content, file); err != nil {
		return err
	}
	fmt.Fprintf(sum, "%s %x\n", filepath.ToSlash(name), content.Sum(nil))
	return nil
}
