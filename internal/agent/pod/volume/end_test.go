package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func TestExitReport(t *testing.T) {
	b := newBench(t)
	if _, found := b.ExitReport("u-1"); found {
		t.Error("a Pod without volumes has a report")
	}
	if err := b.ClearReport("u-1"); err != nil {
		t.Error(err)
	}
	if _, err := b.SetUp(t.Context(), aPod(nil), Mode{Report: true}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(b.disk, "u-1/share/report/exit-code")
	for text, want := range map[string]int32{"0": 0, "7\n": 7, "255": 255, "256": -1, "-1": -1, "": -1, "seven": -1, strings.Repeat("0", 20) + "1": -1} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, found := b.ExitReport("u-1"); found != (want >= 0) || (found && code != want) {
			t.Errorf("%q is %d, %v", text, code, found)
		}
	}
	// What a guest may put there to hold the agent up or to have it read the host.
	number := filepath.Join(t.TempDir(), "number")
	for name, put := range map[string]func() error{
		"a pipe": func() error { return syscall.Mkfifo(path, 0o600) },
		"a link": func() error { return errors.Join(os.WriteFile(number, []byte("3"), 0o600), os.Symlink(number, path)) },
		"a link to its own": func() error {
			return errors.Join(os.WriteFile(filepath.Join(filepath.Dir(path), "other"), []byte("3"), 0o600), os.Symlink("other", path))
		},
		"a directory": func() error { return os.Mkdir(path, 0o700) },
	} {
		if err := errors.Join(b.ClearReport("u-1"), put()); err != nil {
			t.Fatal(err)
		}
		if code, found := b.ExitReport("u-1"); found {
			t.Errorf("%s reads as %d", name, code)
		}
	}
	if err := b.ClearReport("u-1"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the report is there after it was cleared")
	}
}

func TestUsage(t *testing.T) {
	b := newBench(t)
	limit := resource.MustParse("64Ki")
	v := emptyDir("a")
	v.EmptyDir.SizeLimit = &limit
	memory := volumeOf("m", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &limit}})
	p := aPod([]corev1.Volume{v, memory, emptyDir("unlimited")}, mount("a", "/a"), mount("m", "/m"), mount("unlimited", "/u"))
	if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
		t.Fatal(err)
	}
	write := func(path string, n int) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Repeat("x", n)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(b.disk, "u-1/share/report/volumes/a/f"), 32<<10)
	write(filepath.Join(b.disk, "u-1/share/report/volumes/unlimited/f"), 1<<20)
	if name, used, _, over := b.Usage(p); over {
		t.Errorf("%s with %d bytes is over", name, used)
	}
	write(filepath.Join(b.ram, "u-1/memory/volumes/m/f"), 100<<10)
	if name, used, at, over := b.Usage(p); !over || name != "m" || used < 100<<10 || at != 64<<10 {
		t.Errorf("%q, %d of %d, %v", name, used, at, over)
	}
}

func TestTearDown(t *testing.T) {
	b := newBench(t)
	p := aPod([]corev1.Volume{emptyDir("a"), secret("s", "s")}, mount("a", "/a"), mount("s", "/s"))
	if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
		t.Fatal(err)
	}
	other := p.DeepCopy()
	other.UID = "u-2"
	if _, err := b.SetUp(t.Context(), other, Mode{}); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(b.disk, "u-1/share/report/volumes/a/locked")
	if err := errors.Join(os.MkdirAll(locked+"/in", 0o700), os.Chmod(locked, 0)); err != nil {
		t.Fatal(err)
	}
	// What an agent left that was killed in the middle.
	if err := os.MkdirAll(filepath.Join(b.ram, gonePrefix+"u-3/x"), 0o700); err != nil {
		t.Fatal(err)
	}
	uids, err := b.UIDs()
	if d := cmp.Diff([]types.UID{"u-1", "u-2", "u-3"}, uids); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	for _, uid := range []types.UID{"u-1", "u-1", "u-3", "never"} {
		if err := b.TearDown(uid); err != nil {
			t.Errorf("%s: %v", uid, err)
		}
	}
	for _, root := range []string{b.disk, b.ram} {
		entries, err := os.ReadDir(root)
		if err != nil || len(entries) != 1 || entries[0].Name() != "u-2" {
			t.Errorf("%s has %v, %v", root, entries, err)
		}
	}
	for _, uid := range []types.UID{"", "..", "../x", "a/b", ".gone-x"} {
		if err := b.TearDown(uid); err == nil {
			t.Errorf("UID %q is removed", uid)
		}
	}
}

func TestAllowed(t *testing.T) {
	list := []string{"/Volumes/cache", "/opt/shared/", "relative"}
	for path, want := range map[string]bool{
		"/Volumes/cache": true, "/Volumes/cache/": true, "/Volumes/cache/a/b": true, "/opt/shared/x": true,
		"/Volumes/cached": false, "/Volumes": false, "/Volumes/cache/../x": false, "/Volumes/cache/a/../b": false, "/Volumes/cache/..": false, "relative/x": false, "": false, "/": false,
	} {
		if got := Allowed(path, list); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
	if Allowed("/anything", nil) {
		t.Error("an empty list allows something")
	}
	if !Allowed("/anything", []string{"/"}) {
		t.Error("the root allows nothing")
	}
}

func TestDirectoryOrCreate(t *testing.T) {
	b := newBench(t)
	kind := corev1.HostPathDirectoryOrCreate
	v := hostDir("v", filepath.Join(b.allowed, "new/deep"))
	v.HostPath.Type = &kind
	got, err := b.SetUp(t.Context(), aPod([]corev1.Volume{v}, mount("v", "/v")), Mode{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]vm.Share{{Name: "macfleet-hostpath-0", Path: v.HostPath.Path}}, got.Shares); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(b.allowed, "out")); err != nil {
		t.Fatal(err)
	}
	v.HostPath.Path = filepath.Join(b.allowed, "out/new")
	if _, err := b.SetUp(t.Context(), aPod([]corev1.Volume{v}, mount("v", "/v")), Mode{}); err == nil {
		t.Error("a directory was made outside")
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("the outside has %v", entries)
	}
}
