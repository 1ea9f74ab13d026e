package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

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

// A guest that had the outer directory left a link where the inner one was.
func TestAnInnerDirectoryOfTheListLeadsNowhereElse(t *testing.T) {
	b := newBench(t)
	inner, elsewhere := filepath.Join(b.allowed, "cache"), t.TempDir()
	if err := os.Symlink(elsewhere, inner); err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]string{{inner, b.allowed}, {b.allowed, inner}} {
		b.o.HostPaths = list
		_, err := b.SetUp(t.Context(), aPod([]corev1.Volume{hostDir("v", inner)}, mount("v", "/v")), Mode{})
		if err == nil || !strings.Contains(err.Error(), "leads out of "+b.allowed) {
			t.Errorf("with %q: %v", list, err)
		}
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

// TestHostPathThatReadsLikeAnOption: the first Pod made a link, and the second asks
// for a directory that tart would cut down to that link's name.
func TestHostPathThatReadsLikeAnOption(t *testing.T) {
	for _, suffix := range []string{":ro", ":tag=com.apple.virtio-fs.automount", ",ro", "\n"} {
		b := newBench(t)
		if err := os.Symlink(t.TempDir(), filepath.Join(b.allowed, "x")); err != nil {
			t.Fatal(err)
		}
		named := filepath.Join(b.allowed, "x"+suffix)
		if err := os.Mkdir(named, 0o700); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(b.allowed, "link")
		if err := os.Symlink(named, link); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{named, link} {
			got, err := b.SetUp(t.Context(), aPod([]corev1.Volume{hostDir("h", path)}, mount("h", "/h")), Mode{})
			if err == nil || !strings.Contains(err.Error(), "cannot be shared with a VM") {
				t.Errorf("%q is shared: %v, %v", path, got.Shares, err)
			}
		}
	}
}

func TestNoHostPathReachesOurOwn(t *testing.T) {
	b := newBench(t)
	own := filepath.Join(b.allowed, "user/.tart")
	alias := filepath.Join(b.allowed, "alias")
	for _, dir := range []string{filepath.Join(own, "vms"), filepath.Join(b.allowed, "user/cache")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("user/.tart", alias); err != nil {
		t.Fatal(err)
	}
	b.o.Own = []string{own, filepath.Join(b.allowed, "not there yet")}
	kind := corev1.HostPathDirectoryOrCreate
	for path, want := range map[string]bool{
		"": false, "user": false, "user/.tart": false, "user/.tart/vms": false, "user/.tart/new": false, "alias": false, "alias/vms": false,
		"user/cache": true, "user/new": true,
	} {
		v := hostDir("h", filepath.Join(b.allowed, path))
		v.HostPath.Type = &kind
		_, err := b.SetUp(t.Context(), aPod([]corev1.Volume{v}, mount("h", "/h")), Mode{})
		if (err == nil) != want {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := os.Stat(filepath.Join(own, "new")); err == nil {
		t.Error("a directory was made in one of our own")
	}
}

// TestDirectoryIsNotMadeOutside: a relative link is followed by whoever starts higher
// up than at the directory that is allowed.
func TestDirectoryIsNotMadeOutside(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	rel, err := filepath.Rel(b.allowed, outside)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(rel, filepath.Join(b.allowed, "out")); err != nil {
		t.Fatal(err)
	}
	v := hostDir("v", filepath.Join(b.allowed, "out/new"))
	kind := corev1.HostPathDirectoryOrCreate
	v.HostPath.Type = &kind
	if _, err := b.SetUp(t.Context(), aPod([]corev1.Volume{v}, mount("v", "/v")), Mode{}); err == nil {
		t.Error("a directory outside is shared")
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("the outside has %v", entries)
	}
}

// TestNoGuestCanSwapAnothersHostPath: what lies inside a directory that one guest may
// write to could become a link before tart opens it for another.
func TestNoGuestCanSwapAnothersHostPath(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		readOnly      bool // of the first
		want          bool
	}{
		"the same":                          {first: "cache", second: "cache", want: true},
		"beside it":                         {first: "cache", second: "cache2", want: true},
		"inside one that is written to":     {first: "cache", second: "cache/deep/in"},
		"around one":                        {first: "cache/deep/in", second: "cache"},
		"inside one that is only read":      {first: "cache", second: "cache/deep/in", readOnly: true, want: true},
		"around one that is only read":      {first: "cache/deep/in", second: "cache", readOnly: true},
		"inside one under another name":     {first: "cache", second: "alias/deep/in"},
		"the same under another name":       {first: "cache", second: "alias", want: true},
		"inside one that a link is beside":  {first: "cache/deep", second: "alias/deep/in"},
		"a name that begins like the other": {first: "cache/deep", second: "cache/deeper", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for _, dir := range []string{"cache/deep/in", "cache/deeper", "cache2"} {
				if err := os.MkdirAll(filepath.Join(b.allowed, dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("cache", filepath.Join(b.allowed, "alias")); err != nil {
				t.Fatal(err)
			}
			one := mount("h", "/h")
			one.ReadOnly = c.readOnly
			first := aPod([]corev1.Volume{hostDir("h", filepath.Join(b.allowed, c.first))}, one)
			second := aPod([]corev1.Volume{hostDir("h", filepath.Join(b.allowed, c.second))}, mount("h", "/h"))
			second.UID = "u-2"
			if _, err := b.SetUp(t.Context(), first, Mode{}); err != nil {
				t.Fatal(err)
			}
			_, err := b.SetUp(t.Context(), second, Mode{})
			if (err == nil) != c.want {
				t.Errorf("err = %v, want none: %v", err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), "waits until that one is gone") {
				t.Errorf("it does not say what to wait for: %v", err)
			}
			// The first one's next attempt is not held up by its own record.
			if _, err := b.SetUp(t.Context(), first, Mode{}); err != nil {
				t.Error(err)
			}
			if err := b.TearDown("u-1"); err != nil {
				t.Fatal(err)
			}
			if _, err := b.SetUp(t.Context(), second, Mode{}); err != nil {
				t.Errorf("it still waits: %v", err)
			}
		})
	}
}
