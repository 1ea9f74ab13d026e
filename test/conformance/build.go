package conformance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/macfleet/macfleet/sandbox/cluster"
)

const suitePackage = "k8s.io/kubernetes/test/e2e"

// buildSuite returns the suite's test binary, made from the module of the sandbox's
// control plane and so of its version: minutes the first time, and at once from cache
// after. Several tests that ask at once share one build.
func buildSuite(ctx context.Context, module, cache string) (string, error) {
	key, err := suiteKey(module)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(cache, "e2e-"+key, "e2e.test")
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return "", fmt.Errorf("making room for the suite: %w", err)
	}
	unlock, err := cluster.Lock(ctx, filepath.Dir(binary)+".lock", nil)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(binary); !errors.Is(err, fs.ErrNotExist) {
		return binary, err
	}
	made := binary + ".new"
	build := cluster.GoCommand{Dir: module, Doing: "compiling Kubernetes' end-to-end suite"}
	if err := build.Run(ctx, "test", "-c", "-trimpath", "-buildvcs=false", "-vet=off", "-ldflags=-s -w", "-o", made, suitePackage); err != nil {
		return "", err
	}
	// Whole or not at all, also where this process is killed.
	if err := os.Rename(made, binary); err != nil {
		return "", fmt.Errorf("keeping the suite: %w", err)
	}
	return binary, nil
}

// suiteKey names what a build depends on: modules, compiler and kind of machine.
func suiteKey(module string) (string, error) {
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", fmt.Errorf("reading the modules of the suite: %w", err)
		}
		hash.Write(data)
	}
	fmt.Fprint(hash, runtime.Version(), runtime.GOARCH)
	return hex.EncodeToString(hash.Sum(nil)[:6]), nil
}
