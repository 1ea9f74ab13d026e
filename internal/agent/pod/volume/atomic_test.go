package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func rootOf(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// readers are the files as a container sees them: through links, without what
// begins with two dots.
func readers(t *testing.T, dir string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	var walk func(rel string)
	walk = func(rel string) {
		entries, err := os.ReadDir(filepath.Join(dir, rel))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := filepath.Join(rel, e.Name())
			info, err := os.Stat(filepath.Join(dir, name))
			switch {
			case strings.HasPrefix(e.Name(), ".."):
			case err != nil:
				t.Errorf("%s leads nowhere: %v", name, err)
			case info.IsDir():
				walk(name)
			default:
				data, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Error(err)
				}
				seen[name] = string(data)
			}
		}
	}
	walk(".")
	return seen
}

func contents(files map[string]string) payload {
	p := payload{}
	for name, data := range files {
		p[name] = file{data: []byte(data), mode: 0o644}
	}
	return p
}

func TestSwap(t *testing.T) {
	dir := t.TempDir()
	root := rootOf(t, dir)
	now := time.Unix(1e9, 5)
	for i, files := range []map[string]string{
		{"a": "1", "deep/er/b": "2", "deep/c": "3"},
		{"a": "changed", "deep/er/b": "2"},
		{"deep": "now a file"},
		{},
		{"a": "back"},
	} {
		// The clock does not move: stamps of one moment must not collide.
		if err := contents(files).swap(root, now); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if d := cmp.Diff(files, readers(t, dir)); d != "" {
			t.Errorf("step %d (-want +got):\n%s", i, d)
		}
		stamps := 0
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.IsDir() {
				stamps++
			}
		}
		if stamps != 1 {
			t.Errorf("step %d: %d directories of data, want 1", i, stamps)
		}
	}
}

func TestSwapLeavesWhatDidNotChange(t *testing.T) {
	dir := t.TempDir()
	root := rootOf(t, dir)
	p := contents(map[string]string{"a": "1"})
	if err := p.swap(root, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Readlink(filepath.Join(dir, dataLink))
	// What a crash in the middle of another swap leaves.
	for _, junk := range []string{"..2001_01_01_00_00_00.000000000", "stale"} {
		if err := os.Mkdir(filepath.Join(dir, junk), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, dataNext)); err != nil {
		t.Fatal(err)
	}
	if err := p.swap(root, time.Unix(2, 0)); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Readlink(filepath.Join(dir, dataLink)); after != before {
		t.Errorf("the same contents moved from %s to %s", before, after)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 {
		t.Errorf("rubbish stays: %v", entries)
	}
	p["a"] = file{data: []byte("1"), mode: 0o400}
	if err := p.swap(root, time.Unix(3, 0)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "a"))
	if err != nil || info.Mode() != 0o400 {
		t.Errorf("mode is %v, %v; want 0400", info.Mode(), err)
	}
}

// The file system of RAM disks lists names with their letters taken apart, however they were made.
func TestSwapKnowsNamesAsHFSListsThem(t *testing.T) {
	const made, listed = "gr\u00f6\u00dfe.txt", "gro\u0308\u00dfe.txt"
	dir := t.TempDir()
	root := rootOf(t, dir)
	p := contents(map[string]string{made: "1"})
	if err := p.swap(root, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	stamp, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil {
		t.Fatal(err)
	}
	for _, below := range []string{"", stamp} {
		if err := os.Rename(filepath.Join(dir, below, made), filepath.Join(dir, below, listed)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.swap(root, time.Unix(2, 0)); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Readlink(filepath.Join(dir, dataLink)); after != stamp {
		t.Errorf("the same contents moved from %s to %s", stamp, after)
	}
	if _, err := os.Lstat(filepath.Join(dir, listed)); err != nil {
		t.Errorf("a file of the volume was removed: %v", err)
	}
}

func TestPayloadPaths(t *testing.T) {
	for _, name := range []string{
		"", ".", "..", "../a", "a/../../b", "/etc/passwd", "a/../b", "..data", "..data/x", "..2001", "a//b", "a/", "./a",
		"nul\x00", strings.Repeat("n", 256), strings.Repeat("d/", 600) + "f",
	} {
		var mount *MountError
		if err := contents(map[string]string{name: ""}).check(); !errors.As(err, &mount) {
			t.Errorf("path %.40q: %v", name, err)
		}
	}
	for _, name := range []string{"a", "a/b", ".hidden", "a..b", "a/..b", "ü ' \"", strings.Repeat("n", 255)} {
		if err := contents(map[string]string{name: ""}).check(); err != nil {
			t.Errorf("path %.40q: %v", name, err)
		}
	}
	if err := contents(map[string]string{"a": "", "a/b": ""}).check(); err == nil {
		t.Error("a path may be a file and a directory")
	}
	for a, b := range map[string]string{"key": "KEY", "a/b": "A/c", "d/key": "d/Key", "gr\u00f6\u00dfe": "gro\u0308\u00dfe"} {
		err := contents(map[string]string{a: "1", b: "2"}).check()
		if err == nil || !strings.Contains(err.Error(), "differ only in case") {
			t.Errorf("%q and %q, which are one on a Mac: %v", a, b, err)
		}
	}
	if err := contents(map[string]string{"a/b": "", "a/c": "", "ab": ""}).check(); err != nil {
		t.Errorf("paths that have a directory in common: %v", err)
	}
}

// TestSwapStaysInside puts links to the outside where the volume writes.
func TestSwapStaysInside(t *testing.T) {
	outside := t.TempDir()
	keep := filepath.Join(outside, "keep")
	if err := os.WriteFile(keep, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dataLink, dataNext, "a"} {
		dir := t.TempDir()
		if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := contents(map[string]string{"a": "1", "keep": "2"}).swap(rootOf(t, dir), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(map[string]string{"a": "1", "keep": "2"}, readers(t, dir)); d != "" {
			t.Errorf("link at %s (-want +got):\n%s", name, d)
		}
		entries, _ := os.ReadDir(outside)
		data, err := os.ReadFile(keep)
		if len(entries) != 1 || err != nil || string(data) != "mine" {
			t.Errorf("link at %s: the outside has %v, %q, %v", name, entries, data, err)
		}
	}
}

// TestSwapNeverShowsHalf reads while it swaps: two files always have one version.
func TestSwapNeverShowsHalf(t *testing.T) {
	dir := t.TempDir()
	root := rootOf(t, dir)
	versions := []string{"one", "two", "three"}
	put := func(i int) error {
		v := versions[i%len(versions)]
		return contents(map[string]string{"a": v, "b": v}).swap(root, time.Unix(int64(i), 0))
	}
	if err := put(0); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for i := range 200 {
			if err := put(i); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		// One look at the link, then both files through it.
		stamp, err := os.Readlink(filepath.Join(dir, dataLink))
		if err != nil {
			t.Fatalf("the data is gone for a moment: %v", err)
		}
		a, errA := os.ReadFile(filepath.Join(dir, stamp, "a"))
		b, errB := os.ReadFile(filepath.Join(dir, stamp, "b"))
		if errA == nil && errB == nil && string(a) != string(b) {
			t.Fatalf("a is %q while b is %q", a, b)
		}
		if errA != nil && !errors.Is(errA, fs.ErrNotExist) {
			t.Fatal(errA)
		}
	}
}
