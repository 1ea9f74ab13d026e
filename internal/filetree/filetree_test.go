package filetree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deep makes directories inside one another, as a guest can by changing into each: the
// path of the last is longer than any system call takes.
func deep(t testing.TB, dir string, levels int) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		if err := root.Mkdir("d", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := root.OpenRoot("d")
		_ = root.Close()
		if err != nil {
			t.Fatal(err)
		}
		root = next
	}
	_ = root.Close()
}

func flat(t testing.TB, dir string, files int) {
	t.Helper()
	for i := range files {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip("the system does not list our descriptors:", err)
	}
	return len(entries)
}

func TestWalkVisitsEverythingOnce(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	flat(t, outside, 1)
	if err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "a/b"), 0o700), os.WriteFile(filepath.Join(dir, "a/b/f"), []byte("x"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "closed"), 0o700),
		os.WriteFile(filepath.Join(dir, "closed/f"), nil, 0o600), os.Chmod(filepath.Join(dir, "closed"), 0),
	); err != nil {
		t.Fatal(err)
	}
	var seen []string
	if err := Walk(dir, Limits{}, func(name string, _ fs.FileInfo) { seen = append(seen, name) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(seen)
	if d := cmp.Diff([]string{"a", "a/b", "a/b/f", "closed", "closed/f", "link"}, seen); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestWalkEndsAtItsLimits(t *testing.T) {
	dir := t.TempDir()
	flat(t, dir, 10)
	deep(t, dir, 5) // 15 entries in all
	for name, c := range map[string]struct {
		limits Limits
		what   string
	}{
		"as many as may be": {Limits{Entries: 15, Depth: 5}, ""},
		"one more entry":    {Limits{Entries: 14, Depth: 5}, "entries"},
		"one level deeper":  {Limits{Entries: 15, Depth: 4}, "directories inside one another"},
	} {
		t.Run(name, func(t *testing.T) {
			visited := 0
			err := Walk(dir, c.limits, func(string, fs.FileInfo) { visited++ })
			limit, beyond := errors.AsType[*LimitError](err)
			if beyond != (c.what != "") || (beyond && limit.What != c.what) {
				t.Errorf("err = %v, want %q", err, c.what)
			}
			if visited > 15 {
				t.Errorf("visited %d", visited)
			}
		})
	}
}

// TestWalkNeedsNoMoreForMore: memory and descriptors do not grow with the tree.
func TestWalkNeedsNoMoreForMore(t *testing.T) {
	dir := t.TempDir()
	flat(t, dir, 20_000)
	deep(t, dir, 1_000)
	fewDescriptors(t)
	var most uint64
	held, count := descriptors(t), 0
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Walk(dir, Limits{}, func(string, fs.FileInfo) {
		if count++; count%5_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	})
	if limit, ok := errors.AsType[*LimitError](err); !ok || limit.Limit != maxDepth {
		t.Errorf("err = %v, want the limit of depth", err)
	}
	const allowed = 1 << 20 // the names alone of all entries need more
	if most > before.HeapAlloc+allowed {
		t.Errorf("the heap grew from %d to %d bytes", before.HeapAlloc, most)
	}
	if err := Remove(dir); err != nil { // os.RemoveAll would need a descriptor a level
		t.Error(err)
	}
	if left := descriptors(t); left != held {
		t.Errorf("%d descriptors before, %d after", held, left)
	}
}

func TestRemove(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, path string) error{
		"nothing":      func(*testing.T, string) error { return nil },
		"a file":       func(_ *testing.T, path string) error { return os.WriteFile(path, nil, 0) },
		"a dead link":  func(_ *testing.T, path string) error { return os.Symlink("nowhere", path) },
		"a closed one": func(_ *testing.T, path string) error { return os.Mkdir(path, 0) },
		"closed ones inside closed ones": func(_ *testing.T, path string) error {
			return errors.Join(os.MkdirAll(path+"/a/b/c", 0o700), os.Chmod(path+"/a/b", 0), os.Chmod(path+"/a", 0), os.Chmod(path, 0))
		},
		"more than one batch": func(t *testing.T, path string) error {
			err := os.Mkdir(path, 0o700)
			flat(t, path, 3*batch+1)
			return err
		},
		"deeper than what is held open": func(t *testing.T, path string) error {
			err := os.Mkdir(path, 0o700)
			deep(t, path, 10*maxHeld)
			return err
		},
		"closed just where it is moved from": func(t *testing.T, path string) error {
			at := path
			for range maxHeld + 2 {
				at += "/d"
			}
			return errors.Join(os.MkdirAll(at, 0o700), os.Chmod(filepath.Dir(at), 0o500), os.Chmod(filepath.Dir(filepath.Dir(at)), 0o500))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			if err := make(t, path); err != nil {
				t.Fatal(err)
			}
			if err := Remove(path); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

func TestRemoveFollowsNoLink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	flat(t, outside, 3)
	tree := filepath.Join(dir, "x")
	if err := errors.Join(os.Mkdir(tree, 0o700), os.Symlink(outside, filepath.Join(tree, "link")), os.Symlink(outside, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Remove(tree), Remove(filepath.Join(dir, "link"))); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 3 {
		t.Errorf("outside are %d entries, %v", len(entries), err)
	}
}

// fewDescriptors lets the process have no more than a walk and a removal need.
func fewDescriptors(t *testing.T) {
	t.Helper()
	const few = 256
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: few, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before) })
}

// TestRemoveHoldsFewDescriptors: the tree is deeper than the process may have files
// open, which os.RemoveAll cannot remove.
func TestRemoveHoldsFewDescriptors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	deep(t, dir, 1_000)
	before := descriptors(t)
	fewDescriptors(t)
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// BenchmarkRemove measures the two trees that a guest would make to hold us up.
func BenchmarkRemove(b *testing.B) {
	for name, make := range map[string]func(b *testing.B, dir string){
		"400000 empty files":    func(b *testing.B, dir string) { flat(b, dir, 400_000) },
		"25000 levels of depth": func(b *testing.B, dir string) { deep(b, dir, 25_000) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dir := filepath.Join(b.TempDir(), "x")
				if err := os.Mkdir(dir, 0o700); err != nil {
					b.Fatal(err)
				}
				make(b, dir)
				b.StartTimer()
				if err := Remove(dir); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
