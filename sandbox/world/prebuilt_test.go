package world

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/sandbox/cluster"
)

// unpacked is a release's folder, with an empty file for each program.
func unpacked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range Layout(dir).files() {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Neither Go nor sources nor a cache are needed where programs came with a release.
func TestProgramsOfAReleaseAreTakenAsTheyAre(t *testing.T) {
	dir := unpacked(t)
	t.Setenv("PATH", "")
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Chdir(t.TempDir())
	got, err := Build(t.Context(), BuildOptions{Prebuilt: dir})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Layout(dir), got); diff != "" {
		t.Errorf("programs (-want +got):\n%s", diff)
	}
	if guests := got.guestPrograms(); guests != nil {
		t.Errorf("guests are given %q, which no release has", guests)
	}
}

func TestAnIncompleteReleaseSaysWhatIsMissing(t *testing.T) {
	dir := unpacked(t)
	if err := os.Remove(Layout(dir).AgentTwin); err != nil {
		t.Fatal(err)
	}
	_, err := Build(t.Context(), BuildOptions{Prebuilt: dir})
	if !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), Layout(dir).AgentTwin) {
		t.Errorf("%v: want ErrIncomplete with the file's name", err)
	}
}

// A checkout that is named is built, also by a released macfleet.
func TestANamedCheckoutWinsOverPrograms(t *testing.T) {
	_, err := Build(t.Context(), BuildOptions{Prebuilt: unpacked(t), SourceDir: t.TempDir(), CacheDir: t.TempDir()})
	if !errors.Is(err, cluster.ErrNoSource) {
		t.Errorf("%v: want that there is no checkout in the folder that was named", err)
	}
}

func TestWithoutProgramsAndCheckoutBothAreNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Build(t.Context(), BuildOptions{Prebuilt: filepath.Join(t.TempDir(), "none")})
	if !errors.Is(err, ErrNoSource) || !strings.Contains(err.Error(), "sandbox archive") || !strings.Contains(err.Error(), "--source") {
		t.Errorf("%v: want both ways out", err)
	}
}
