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
	"k8s.io/apimachinery/pkg/types"
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
		"a pipe with a number": func() error {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("3")
			t.Cleanup(func() { _ = f.Close() })
			return err
		},
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

// TestClearReportOfAGuestThatForbidsIt: as root everything is allowed, so that it
// proves something for other users only.
func TestClearReportOfAGuestThatForbidsIt(t *testing.T) {
	b := newBench(t)
	setup, err := b.SetUp(t.Context(), aPod(nil), Mode{Report: true})
	if err != nil {
		t.Fatal(err)
	}
	share := setup.Shares[0].Path
	dir := filepath.Join(share, reportFile)
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "x"), 0o700), os.Chmod(dir, 0), os.Chmod(share, 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(os.Chmod(share, 0o700), os.Chmod(dir, 0o700)) })
	if err := b.ClearReport("u-1"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the report is still there")
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
