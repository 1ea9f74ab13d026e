package tart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// pinnedImage cannot change, as a tag can.
const pinnedImage = "registry.test:5000/macos/base@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// interrupt has a pull come half way: there it is given up, or loses its connection.
func (f *fake) interrupt(t *testing.T, ref, fault string) {
	t.Helper()
	f.plan(t, faults(fault))
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	_, err := f.Pull(ctx, ref, vm.PullOptions{Progress: func(percent int) {
		if percent == 50 && fault == "pull-stalls" {
			giveUp()
		}
	}})
	if err == nil {
		t.Fatal("half an image was pulled")
	}
	f.plan(t, nil)
}

// begins pulls, and returns the first percent that is told.
func (f *fake) begins(t *testing.T, ref string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := -1
	_, err := f.Pull(ctx, ref, vm.PullOptions{Progress: func(percent int) {
		if first < 0 {
			first = percent
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// restart makes a driver of a new process; the locks of the old one end with it.
func (f *fake) restart() {
	for _, lock := range f.leftovers.locks {
		_ = lock.Close()
	}
	f.Driver = New(Options{Path: f.path, Home: f.home, Environ: f.environ, QueryTimeout: f.query})
}

func (f *fake) list(t *testing.T) {
	t.Helper()
	if _, err := f.Images(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Other commands of tart, whoever types them, would remove what an ended pull has left.
func TestAPullGoesOnWhereTheLastOneEnded(t *testing.T) {
	between := map[string]func(*testing.T, *fake){
		"our command": func(t *testing.T, f *fake) { f.list(t) },
		"a command of the next agent": func(t *testing.T, f *fake) {
			f.restart()
			f.list(t)
		},
		"somebody's command": func(t *testing.T, f *fake) {
			cmd := exec.Command(f.path, "list")
			cmd.Env = f.environ
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		},
		// While the registry is asked, the pull has not locked anything yet.
		"a command before the pull has the leftover": func(t *testing.T, f *fake) {
			f.path = wrapped(t, f.path, `case "$1" in pull) `+f.path+` list >/dev/null;; esac`)
		},
	}
	for _, fault := range []string{"pull-stalls", "pull-interrupted"} {
		for name, act := range between {
			t.Run(fault+", "+name, func(t *testing.T) {
				f := newFake(t, nil)
				f.interrupt(t, pinnedImage, fault)
				act(t, f)
				if first := f.begins(t, pinnedImage); first != 50 {
					t.Errorf("the next pull begins at %d %%", first)
				}
			})
		}
	}
}

// A tag may have moved since, and tart would mix the two images.
func TestAPullOfATagBeginsAnew(t *testing.T) {
	for _, fault := range []string{"pull-stalls", "pull-interrupted"} {
		f := newFake(t, nil)
		f.interrupt(t, fakeImage, fault)
		if _, err := os.Stat(f.leftover(fakeImage)); !os.IsNotExist(err) {
			t.Errorf("%s: what it brought is there: %v", fault, err)
		}
	}
	f := newFake(t, nil)
	cmd := exec.Command(f.path, "pull", fakeImage) // of an agent that was killed
	cmd.Env = f.environ
	f.plan(t, faults("pull-interrupted"))
	if err := cmd.Run(); err == nil {
		t.Fatal("half an image was pulled")
	}
	f.plan(t, nil)
	if first := f.begins(t, fakeImage); first != 0 {
		t.Errorf("the next pull begins at %d %%", first)
	}
}

func TestHowLongALeftoverIsKept(t *testing.T) {
	other := "registry.test:5000/macos/other:v1"
	failing := func(fault, ref string, want error) func(*testing.T, *fake) {
		return func(t *testing.T, f *fake) {
			f.plan(t, faults(fault))
			if _, err := f.Pull(t.Context(), ref, vm.PullOptions{}); !errors.Is(err, want) {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name string
		act  func(*testing.T, *fake)
		kept bool
	}{
		{"a while", func(t *testing.T, f *fake) { f.age(t, 29*time.Minute) }, true},
		{"too long", func(t *testing.T, f *fake) { f.age(t, 31*time.Minute) }, false},
		{"its own pull finds no space", failing("pull-no-space", pinnedImage, vm.ErrNoSpace), false},
		{"another finds none", failing("pull-no-space", other, vm.ErrNoSpace), false},
		{"the image is gone", failing("pull-not-found", pinnedImage, vm.ErrImageNotFound), false},
		{"another image is gone", failing("pull-not-found", other, vm.ErrImageNotFound), true},
		{"the credentials were not those", failing("pull-unauthorized", pinnedImage, vm.ErrAuth), true},
		{"the next try was ended for want of room", func(t *testing.T, f *fake) {
			f.plan(t, faults("pull-stalls"))
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			_, err := f.Pull(ctx, pinnedImage, vm.PullOptions{Progress: func(int) { end(fmt.Errorf("full: %w", vm.ErrNoSpace)) }})
			if !errors.Is(err, vm.ErrNoSpace) {
				t.Fatal(err)
			}
		}, false},
		{"the host is short of disk", func(t *testing.T, f *fake) { f.RemoveLeftovers() }, false},
		{"images are removed", func(t *testing.T, f *fake) {
			f.begins(t, other)
			if err := f.RemoveImage(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, nil)
			f.interrupt(t, pinnedImage, "pull-interrupted")
			c.act(t, f)
			f.list(t)
			if _, err := os.Stat(f.leftover(pinnedImage)); (err == nil) != c.kept {
				t.Errorf("kept: %v", err)
			}
		})
	}
}

func (f *fake) leftover(ref string) string {
	return filepath.Join(f.home, "tmp", leftoverName(ref))
}

// age makes it look as if what is left was written so long ago.
func (f *fake) age(t *testing.T, age time.Duration) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(f.leftover(pinnedImage), "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	then := time.Now().Add(-age)
	for _, file := range files {
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNamesOfLeftovers(t *testing.T) {
	f := newFake(t, nil)
	for _, ref := range []string{fakeImage, "registry.test/macos/base", "registry.test/macos/base:v1", pinnedImage} {
		cmd := exec.Command(f.path, "pull", ref) // as the agent does not: it would remove those of tags
		cmd.Env = f.environ
		f.plan(t, faults("pull-interrupted"))
		if err := cmd.Run(); err == nil {
			t.Fatal("half an image was pulled")
		}
		if _, err := os.Stat(f.leftover(ref)); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// aLeftover is one in a home without a tart.
func aLeftover(t *testing.T) (l *leftovers, name, dir string) {
	t.Helper()
	l, name = newLeftovers(t.TempDir()), leftoverName(fakeImage)
	dir = filepath.Join(l.dir, name)
	writeFile(t, filepath.Join(dir, "disk.img"))
	l.keep()
	if !isLocked(dir) {
		t.Fatal("what nobody has locked is not kept")
	}
	return l, name, dir
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func isLocked(dir string) bool {
	lock, taken := tryLock(dir)
	if lock != nil {
		_ = lock.Close()
	}
	return taken
}

// Nobody takes the lock between the pull that is to have it and tart.
func TestALeftoverIsItsPullsOwn(t *testing.T) {
	l, name, dir := aLeftover(t)
	_ = l.take(name).Close()
	l.keep()
	if isLocked(dir) {
		t.Error("tart waits for the lock")
	}
	l.takeBack(name)
	if !isLocked(dir) {
		t.Error("what the pull left is not kept")
	}
}

func TestWhatTookALeftoversPlaceIsNotRemoved(t *testing.T) {
	l, _, dir := aLeftover(t)
	if err := os.Rename(dir, dir+"-gone"); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "disk.img"))
	l.removeAll()
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}
