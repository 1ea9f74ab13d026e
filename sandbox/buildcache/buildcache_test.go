package buildcache

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// folder makes one with a file in it, last used at that time.
func folder(t *testing.T, path, text string, used time.Time) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "program"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	age(t, path, used)
}

func age(t *testing.T, path string, used time.Time) {
	t.Helper()
	if err := os.Chtimes(path, used, used); err != nil {
		t.Fatal(err)
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestAnEntryKeepsItsFiles(t *testing.T) {
	cache := t.TempDir()
	entry, program := filepath.Join(cache, "programs-1"), filepath.Join(cache, "programs-1", "program")
	folder(t, filepath.Join(cache, "first"), "first", time.Now())
	if err := Put(filepath.Join(cache, "first"), entry); err != nil {
		t.Fatal(err)
	}
	if mode := stat(t, entry).Mode().Perm(); mode != 0o755 {
		t.Errorf("others may not read it: %v", mode)
	}
	before := stat(t, program)
	folder(t, filepath.Join(cache, "second"), "second", time.Now())
	if err := Put(filepath.Join(cache, "second"), entry); err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, stat(t, program)) {
		t.Error("a file was replaced")
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*")); !slices.Equal(left, []string{entry}) {
		t.Errorf("the cache holds %q", left)
	}
}

func TestWhatIsRemoved(t *testing.T) {
	now := time.Now()
	long := now.Add(-time.Hour)
	for name, c := range map[string]struct {
		used, held, letGo, keep bool
		gone                    bool
	}{
		"unused":         {gone: true},
		"asked to stay":  {keep: true},
		"just used":      {used: true},
		"held since":     {held: true},
		"just let go of": {held: true, letGo: true},
	} {
		cache := t.TempDir()
		entry, other := filepath.Join(cache, "programs-1"), filepath.Join(cache, "else")
		folder(t, entry, name, long)
		folder(t, other, name, long)
		if c.used && !Use(entry) {
			t.Errorf("%s: it is not found", name)
		}
		if c.held {
			held, err := Hold(entry)
			if err != nil {
				t.Fatal(err)
			}
			age(t, entry, long)
			release := sync.OnceValue(held.Close)
			defer release() //nolint:errcheck // nothing was written
			if c.letGo {
				_ = release()
			}
		}
		var keep []string
		if c.keep {
			keep = append(keep, entry)
		}
		Prune(cache, now.Add(-time.Minute), []string{"programs-*"}, keep...)
		if _, err := os.Stat(entry); os.IsNotExist(err) != c.gone {
			t.Errorf("%s: %v", name, err)
		}
		stat(t, other)
	}
}

func TestWhatWasRemovedIsNotUsed(t *testing.T) {
	if Use(filepath.Join(t.TempDir(), "programs-1")) {
		t.Error("an entry that is not there is found")
	}
}
