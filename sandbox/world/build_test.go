package world

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/sandbox/cluster"
)

// fakeGo stands for the go command: it "compiles" a program to FAKE_GO_SOURCE and its
// arguments, without the folder that -o names, and to a stamp where it may put one in.
const fakeGo = `#!/bin/sh
stamp=$$
for word; do
	case $before in
	-o) out=$word ;;
	*) said="$said $word" ;;
	esac
	case $word in -buildvcs=false) stamp= ;; esac
	before=$word
done
echo "$FAKE_GO_SOURCE $GOOS $said $stamp" >"$out"
`

func withFakeGo(t *testing.T) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(fakeGo), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// Macs that run can show their guests no file that was replaced.
func TestABuildReplacesAndRemovesNoProgramInUse(t *testing.T) {
	withFakeGo(t)
	cache := t.TempDir()
	builds := func(source string) Binaries {
		t.Helper()
		t.Setenv("FAKE_GO_SOURCE", source)
		built, err := buildOurs(t.Context(), t.TempDir(), cache)
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	first := builds("first")
	first.Cluster = cluster.Layout(t.TempDir())
	w := &World{options: Options{Binaries: first, Logger: slog.New(slog.DiscardHandler), Dir: filepath.Join(first.Manager, "no folder")}}
	if err := w.start(t.Context()); err == nil {
		t.Fatal("a sandbox without a directory starts")
	}
	before := files(t, first)
	if again := builds("first"); again.Manager != first.Manager {
		t.Errorf("the same programs are in two places: %+v", again)
	}
	forget(t, first)
	second := builds("second")
	if second.Manager == first.Manager {
		t.Error("a change of the sources is in the same place")
	}
	for path, then := range files(t, first) {
		if !os.SameFile(before[path], then) {
			t.Errorf("%s was replaced", path)
		}
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	forget(t, first)
	builds("third")
	if _, err := os.Stat(first.Manager); !os.IsNotExist(err) {
		t.Errorf("what nobody uses for long stays: %v", err)
	}
	files(t, second)
}

// A build that somebody spoiled is not mended under those who run from it.
func TestASpoiledBuildIsRefused(t *testing.T) {
	withFakeGo(t)
	cache := t.TempDir()
	built, err := buildOurs(t.Context(), t.TempDir(), cache)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(built.Manager); err != nil {
		t.Fatal(err)
	}
	if _, err := buildOurs(t.Context(), t.TempDir(), cache); err == nil || !strings.Contains(err.Error(), filepath.Dir(built.Manager)) {
		t.Errorf("says %v", err)
	}
}

// files are the programs of a build, each of which has to be there.
func files(t *testing.T, b Binaries) map[string]os.FileInfo {
	t.Helper()
	found := map[string]os.FileInfo{}
	for _, path := range []string{b.Manager, filepath.Join(b.AgentDir, "tart-kubelet"), b.AgentTwin, filepath.Join(b.Mac, "macsim"), filepath.Join(b.Mac, "macshim")} {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		found[path] = st
	}
	return found
}

// forget makes a build one that was last used long ago.
func forget(t *testing.T, b Binaries) {
	t.Helper()
	long := time.Now().Add(-2 * keepUnused)
	if err := os.Chtimes(filepath.Dir(b.Manager), long, long); err != nil {
		t.Fatal(err)
	}
}
