package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
)

// fakeGo stands for the go command: it answers what a build asks, "compiles" by writing files, and notes each build.
// FAKE_GO_FAIL makes compiling fail, FAKE_GO_HANG makes it hang.
const fakeGo = `#!/bin/sh
case "$1 $2" in
"env GOVERSION") echo go1.26.0 ;;
"env GOCACHE") echo "$FAKE_GO_DIR" ;;
"mod download") ;;
"list -m") printf '{"Path":"k8s.io/kubernetes","Version":"v1.36.4"}{"Path":"sigs.k8s.io/cluster-api","Version":"v1.14.2","Dir":"%s/capi"}' "$FAKE_GO_DIR" ;;
"list -deps") printf 'one\ntwo\nthree\nfour\n' ;;
"build -v")
	echo build >>"$FAKE_GO_DIR/builds"
	echo "cgo $CGO_ENABLED, workspace '$GOWORK'" >"$FAKE_GO_DIR/environment"
	if [ -n "$FAKE_GO_FAIL" ]; then printf '# one\n./one.go:1: first\nlast words\n' >&2; exit 1; fi
	if [ -n "$FAKE_GO_HANG" ]; then : >"$FAKE_GO_DIR/hanging"; exec sleep 1000; fi
	printf 'one\nnot asked for\ntwo\nthree\nfour\n' >&2
	echo controlplane >"$4/controlplane"; echo core >"$4/core" ;;
*) echo "unexpected: go $*" >&2; exit 2 ;;
esac
`

// checkout is a folder that looks like one to a build, with a go command of its own.
func checkout(t *testing.T) (source string) {
	t.Helper()
	source = t.TempDir()
	write(t, filepath.Join(source, "go.work"), "go 1.26.0")
	write(t, filepath.Join(source, "go.mod"), "module main")
	write(t, filepath.Join(source, moduleDir, "go.mod"), "module controlplane")
	write(t, filepath.Join(source, moduleDir, "main.go"), "package main")
	config := filepath.Join(source, "capi", "core", "config")
	write(t, filepath.Join(config, "crd", "bases", "x.yaml"), crdYAML)
	write(t, filepath.Join(config, "webhook", "manifests.yaml"), webhooksYAML)
	bin := t.TempDir()
	write(t, filepath.Join(bin, "go"), fakeGo)
	if err := os.Chmod(filepath.Join(bin, "go"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("FAKE_GO_DIR", source)
	return source
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func builds(t *testing.T, source string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(source, "builds"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(data), "build\n")
}

func TestBuildCompilesOnce(t *testing.T) {
	source, cache := checkout(t), t.TempDir()
	var stages []Stage
	options := BuildOptions{SourceDir: source, CacheDir: cache, Progress: func(p Progress) {
		if len(stages) == 0 || stages[len(stages)-1] != p.Stage {
			stages = append(stages, p.Stage)
		}
	}}
	first, err := Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{first.ControlPlane, first.Core, filepath.Join(first.Manifests, "crds", "x.yaml"), filepath.Join(first.Manifests, webhooksFile)} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]Stage{StageResolving, StageCompiling, StageLinking, StageDone}, stages); diff != "" {
		t.Error(diff)
	}
	second, err := Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
	if n := builds(t, source); n != 1 {
		t.Errorf("compiled %d times, want once", n)
	}
	write(t, filepath.Join(source, moduleDir, "main.go"), "package main // changed")
	third, err := Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if third == first || builds(t, source) != 2 {
		t.Error("changed sources were not compiled")
	}
}

// A release is built with GOWORK=off, where other programs are; it gets what the tests ran.
func TestBuildIsTheSameWhoeverAsks(t *testing.T) {
	source := checkout(t)
	t.Setenv("GOWORK", "off")
	t.Setenv("CGO_ENABLED", "1")
	if _, err := Build(t.Context(), BuildOptions{SourceDir: source, CacheDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(source, "environment"))
	if want := "cgo 0, workspace ''\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestBuildersAtOnceShareOneBuild(t *testing.T) {
	source, cache := checkout(t), t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := Build(t.Context(), BuildOptions{SourceDir: source, CacheDir: cache}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := builds(t, source); n != 1 {
		t.Errorf("compiled %d times, want once", n)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	source, cache := checkout(t), t.TempDir()
	t.Setenv("FAKE_GO_FAIL", "yes")
	_, err := Build(t.Context(), BuildOptions{SourceDir: source, CacheDir: cache})
	var compile *CompileError
	if !errors.As(err, &compile) {
		t.Fatalf("error %v, want a CompileError", err)
	}
	if want := "compiling the control plane: exit status 1: last words"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if !strings.Contains(compile.Output, "./one.go:1: first") {
		t.Errorf("output %q lacks the compiler's words", compile.Output)
	}
	wantEmpty(t, cache)
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	source, cache := checkout(t), t.TempDir()
	t.Setenv("FAKE_GO_HANG", "yes")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		hanging := func(context.Context) (bool, error) { return exists(filepath.Join(source, "hanging")), nil }
		if err := wait.PollUntilContextTimeout(t.Context(), statePoll, startTimeout, true, hanging); err != nil {
			t.Error(err)
		}
	}()
	_, err := Build(ctx, BuildOptions{SourceDir: source, CacheDir: cache})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the context was cancelled", err)
	}
	wantEmpty(t, cache)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// wantEmpty allows for locks, which must stay: another builder may hold one.
func wantEmpty(t *testing.T, cache string) {
	t.Helper()
	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".lock" {
			t.Errorf("%s stayed in the cache", entry.Name())
		}
	}
}

func TestBuildSaysWhatIsMissing(t *testing.T) {
	source := checkout(t)
	if _, err := Build(t.Context(), BuildOptions{SourceDir: t.TempDir(), CacheDir: t.TempDir()}); !errors.Is(err, ErrNoSource) {
		t.Errorf("without sources: %v, want ErrNoSource", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Build(t.Context(), BuildOptions{SourceDir: source, CacheDir: t.TempDir()}); !errors.Is(err, ErrNoGo) {
		t.Errorf("without go: %v, want ErrNoGo", err)
	}
}

func TestKeyFollowsWhatDecidesTheBuild(t *testing.T) {
	source := checkout(t)
	key := func() string {
		t.Helper()
		key, err := cacheKey(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	for _, tc := range []struct {
		file    string
		changes bool
	}{
		{"go.work", true},
		{"go.mod", true}, // in a workspace it raises versions for all
		{moduleDir + "/go.mod", true},
		{moduleDir + "/go.sum", true},
		{moduleDir + "/main.go", true},
		{moduleDir + "/internal/up/up.go", true},
		{moduleDir + "/main_test.go", false},
		{moduleDir + "/README.md", false},
		{"internal/host/claim.go", false},
	} {
		t.Run(tc.file, func(t *testing.T) {
			before := key()
			if key() != before {
				t.Fatal("the same sources have two keys")
			}
			write(t, filepath.Join(source, tc.file), "changed")
			if changed := key() != before; changed != tc.changes {
				t.Errorf("the key changed: %v, want %v", changed, tc.changes)
			}
		})
	}
}

func TestFindSourceLooksUpwards(t *testing.T) {
	source := checkout(t)
	below := filepath.Join(source, "test", "e2e")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	found, err := findSource("")
	if err != nil || found != source {
		t.Errorf("found %q, %v; want %q", found, err, source)
	}
}

func TestPruneRemovesWhatNobodyAsksFor(t *testing.T) {
	cache := t.TempDir()
	now := time.Now()
	old := now.Add(-time.Hour)
	keep := filepath.Join(cache, entryPrefix+"current")
	for name, modified := range map[string]time.Time{
		entryPrefix + "current": old, entryPrefix + "used": now, entryPrefix + "old": old,
		entryPrefix + "old.lock": old, tempPrefix + "killed": old, tempPrefix + "running": now, "else": old,
	} {
		path := filepath.Join(cache, name)
		write(t, filepath.Join(path, "file"), "")
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	prune(cache, keep, now.Add(-time.Minute))
	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	want := []string{tempPrefix + "running", entryPrefix + "current", entryPrefix + "used", "else"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestLinkerFlags(t *testing.T) {
	flags := linkerFlags("v1.36.4", "v1.14.2")
	for _, want := range []string{
		"-s -w ",
		"-X k8s.io/component-base/version.gitVersion=v1.36.4",
		"-X k8s.io/component-base/version.gitMajor=1",
		"-X k8s.io/component-base/version.gitMinor=36",
		"-X k8s.io/client-go/pkg/version.gitVersion=v1.36.4",
		"-X sigs.k8s.io/cluster-api/version.gitVersion=v1.14.2",
		"-X sigs.k8s.io/cluster-api/version.gitMinor=14",
	} {
		if !strings.Contains(flags, want) {
			t.Errorf("%q is missing in %s", want, flags)
		}
	}
}
