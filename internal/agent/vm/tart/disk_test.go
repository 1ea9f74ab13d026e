package tart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/vmtest"
)

// diskGB is the size of a machine's disk as its guest sees it.
func (f *fake) diskGB(t *testing.T, name string) int64 {
	t.Helper()
	for _, file := range []string{"overlay.asif", "disk.img"} {
		path := filepath.Join(f.machineDir(name), file)
		st, err := os.Stat(path)
		if err != nil {
			continue
		}
		if st.Size() > 1<<20 {
			return st.Size() / 1e9
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var size int64
		if _, err := fmt.Sscanf(string(data), "simulated ASIF disk of %d bytes", &size); err != nil {
			t.Fatal(err)
		}
		return size / 1e9
	}
	t.Fatalf("%s has no disk", name)
	return 0
}

// A disk gets as big as was asked for and never smaller than it was, in whatever
// format and with whatever tart it is.
func TestDiskSizes(t *testing.T) {
	images := map[string]map[string]any{
		"raw": {"diskGB": 50}, "asif": {"diskGB": 50, "diskFormat": "asif"}, "in layers": inLayers(),
	}
	for _, version := range versions() {
		for name, image := range images {
			if name == "in layers" && version != "2.36.0" {
				continue // it is a raw disk to an older tart, and smaller
			}
			t.Run(version+" "+name, func(t *testing.T) {
				f := newFake(t, map[string]any{"version": version, "images": map[string]any{fakeImage: image}})
				if _, err := f.Pull(t.Context(), fakeImage, vm.PullOptions{}); err != nil {
					t.Fatal(err)
				}
				for wanted, want := range map[int64]int64{0: 50, 20e9: 50, 50e9: 50, 50e9 + 1: 51, 80e9: 80} {
					vmName := fmt.Sprintf("tk-%d-0", wanted)
					if err := f.Create(t.Context(), vmName, fakeImage, vm.Shape{CPUs: 6, DiskBytes: wanted}); err != nil {
						t.Errorf("%d bytes wanted: %v", wanted, err)
						continue
					}
					if got := f.diskGB(t, vmName); got != want {
						t.Errorf("%d bytes wanted: %d GB, want %d", wanted, got, want)
					}
					if data, err := os.ReadFile(f.configFile(vmName)); err != nil || !strings.Contains(string(data), `"cpuCount": 6`) {
						t.Errorf("%d bytes wanted: the rest of the shape is not set: %s, %v", wanted, data, err)
					}
				}
			})
		}
	}
}

// tart forgets with each setting that is not told it anew that the display fits itself to
// its window.
func TestAGrownDiskLeavesTheDisplay(t *testing.T) {
	f := newFake(t, nil)
	digest, err := f.Pull(t.Context(), fakeImage, vm.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	link, err := f.imageLink(fakeImage)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(link), digest, "config.json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fitting := strings.Replace(string(data), "{", `{"displayRefit": true,`, 1)
	if err := os.WriteFile(file, []byte(fitting), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Create(t.Context(), "tk-a-0", fakeImage, vm.Shape{DiskBytes: 80e9}); err != nil {
		t.Fatal(err)
	}
	if c, err := readConfig(f.configFile("tk-a-0")); err != nil || c.DisplayRefit == nil || !*c.DisplayRefit || f.diskGB(t, "tk-a-0") != 80 {
		t.Errorf("%+v, %v", c, err)
	}
}

// A refused size is told, and nothing is left behind.
func TestADiskThatCannotGrow(t *testing.T) {
	f := newFake(t, nil)
	if _, err := f.Pull(t.Context(), fakeImage, vm.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	f.path = wrapped(t, f.path, `case "$*" in *--disk-size*) echo "new disk size must align to the stacked disk block size" >&2; exit 1;; esac`)
	err := f.Create(t.Context(), "tk-a-0", fakeImage, vm.Shape{DiskBytes: 80e9})
	if err == nil || !strings.Contains(err.Error(), "growing the disk of tk-a-0 to 80 GB") || !strings.Contains(err.Error(), "block size") {
		t.Errorf("%v", err)
	}
	if _, err := f.Machine(t.Context(), "tk-a-0"); !errors.Is(err, vm.ErrNotFound) {
		t.Errorf("something was left behind: %v", err)
	}
}

// wrapped is tart behind a script that may do something else.
func wrapped(t *testing.T, tart, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tart")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\nexec "+tart+` "$@"`+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// What images share is counted for each of them: nobody knows which goes last.
func TestLayersAreCounted(t *testing.T) {
	sibling := "registry.test:5000/macos/sibling:v1"
	f := newFake(t, map[string]any{"version": "2.36.0", "images": map[string]any{fakeImage: inLayers(), sibling: inLayers()}})
	for _, ref := range []string{fakeImage, sibling} {
		if _, err := f.Pull(t.Context(), ref, vm.PullOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	images, err := f.Images(t.Context())
	if err != nil || len(images) != 4 {
		t.Fatalf("%+v, %v", images, err)
	}
	for _, i := range images {
		if i.SizeBytes < 3<<20 {
			t.Errorf("%s is said to take %d bytes", i.Name, i.SizeBytes)
		}
	}
}

// An image of which a layer went is not held: a clone would have tart pull it, without
// credentials and without anybody seeing.
func TestAnImageWithoutALayerIsNotHeld(t *testing.T) {
	f := newFake(t, map[string]any{"version": "2.36.0", "images": map[string]any{fakeImage: inLayers()}})
	if _, err := f.Pull(t.Context(), fakeImage, vm.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	stored, err := filepath.Glob(filepath.Join(f.home, "cache", "content", "sha256", "*"))
	if err != nil || len(stored) != 2 {
		t.Fatalf("layers %v, %v", stored, err)
	}
	if err := os.Remove(stored[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Digest(t.Context(), fakeImage); !errors.Is(err, vm.ErrNotFound) {
		t.Errorf("digest: %v", err)
	}
	if err := f.Create(t.Context(), "tk-a-0", fakeImage, vm.Shape{}); !errors.Is(err, vm.ErrNotFound) {
		t.Errorf("create: %v", err)
	}
	if argvs, _ := f.calls(t, "clone"); len(argvs) != 0 {
		t.Errorf("clones %q", argvs)
	}
	if _, err := f.Pull(t.Context(), fakeImage, vm.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	vmtest.Create(t, f.subject(), "tk-a-0")
}

// Records that nobody can read are no images, and hide no others.
func TestRecordsThatAreNoImages(t *testing.T) {
	for name, manifest := range map[string]string{
		"no manifest": "", "half a manifest": `{"layers":[`, "no layers": `{"layers":[]}`,
		"a way out": `{"layers":[{"annotations":{"` + contentAnnotation + `":"sha256:` + strings.Repeat("../", 20) + `etc/passwd"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			digest := "sha256:" + strings.Repeat("a", 64)
			dir := filepath.Join(home, "cache", "OCIs", "registry.test", "x", digest)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			files := map[string]string{"config.json": "{}", "nvram.bin": ""}
			if manifest != "" {
				files["manifest.json"] = manifest
			}
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d := New(Options{Path: "/bin/false", Home: home})
			if got, err := d.Digest(t.Context(), "registry.test/x@"+digest); !errors.Is(err, vm.ErrNotFound) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// Wherever the volume fills up, it is told as that, nothing is left behind, and the
// next try succeeds.
func TestFullAtEveryStep(t *testing.T) {
	for _, version := range versions() {
		for _, image := range []map[string]any{{"diskGB": 50}, inLayers()} {
			for _, kinds := range [][]string{{"pull-no-space"}, {"clone-no-space"}, {"set-no-space"}, {"set-no-space", "delete-no-space"}} {
				t.Run(fmt.Sprint(version, image["layers"] != nil, kinds), func(t *testing.T) {
					plan := map[string]any{"version": version, "images": map[string]any{fakeImage: image}}
					full := map[string]any{"version": version, "images": plan["images"], "faults": faults(kinds...)["faults"]}
					f := newFake(t, full)
					if !slices.Contains(kinds, "pull-no-space") {
						f.plan(t, plan)
						if _, err := f.Pull(t.Context(), fakeImage, vm.PullOptions{}); err != nil {
							t.Fatal(err)
						}
						f.plan(t, full)
						if err := f.Create(t.Context(), "tk-a-0", fakeImage, vm.Shape{CPUs: 4}); !errors.Is(err, vm.ErrNoSpace) {
							t.Errorf("create: %v", err)
						}
					} else if _, err := f.Pull(t.Context(), fakeImage, vm.PullOptions{}); !errors.Is(err, vm.ErrNoSpace) {
						t.Errorf("pull: %v", err)
					}
					if _, err := os.Lstat(f.machineDir("tk-a-0")); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("something was left behind: %v", err)
					}
					f.plan(t, plan)
					vmtest.Create(t, f.subject(), "tk-a-0")
				})
			}
		}
	}
}

// macOS tells of a full volume in several ways, most of them in words and without a code.
func TestHowAFullVolumeIsTold(t *testing.T) {
	for _, says := range []string{
		"write failed: No space left on device",
		`Error Domain=NSPOSIXErrorDomain Code=28 "…"`,
		`Error Domain=NSCocoaErrorDomain Code=640 "…"`,
		"“disk.img” couldn’t be copied to “tmp” because there isn’t enough space.",
		"You can’t save the file “disk.img” because the volume “guests” is out of space.",
	} {
		d := scripted(t, "cat >&2 <<'END'\n"+says+"\nEND\nexit 1")
		if _, err := d.Pull(t.Context(), "registry.test/macos/base:v1", vm.PullOptions{}); !errors.Is(err, vm.ErrNoSpace) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// A tart after 2.35 ends run where it cannot open its socket; up to then nobody
// reaches the guest's agent, and a stop works all the same.
func TestWithoutAControlSocket(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			f := newFake(t, map[string]any{"version": version, "faults": []map[string]any{{"kind": "socket-fails"}}})
			s := f.subject()
			vmtest.Create(t, s, "tk-a-0")
			ended := vmtest.Execute(t, s, "tk-a-0")
			if version == "2.36.0" {
				end := <-ended
				got := f.Classify(end)
				if got.Kind != vm.NotStarted || !strings.Contains(got.Message, "the volume is full") {
					t.Errorf("%+v is %+v", end, got)
				}
				return
			}
			vmtest.Running(t, s, "tk-a-0")
			if err := f.Stop(t.Context(), "tk-a-0", time.Minute); err != nil {
				t.Fatal(err)
			}
			vmtest.Expect(t, s, ended, vm.Stopped)
		})
	}
}

// A name that tart cannot parse is one that no other try makes right.
func TestNamesThatTartCannotParse(t *testing.T) {
	d := scripted(t, `echo 'failed to parse remote name: mismatched input (character 21)' >&2; exit 1`)
	if _, err := d.Pull(t.Context(), "registry.test/a/b:v1--x", vm.PullOptions{}); !errors.Is(err, vm.ErrInvalidReference) {
		t.Errorf("%v", err)
	}
}

// A machine that somebody makes between our look and the clone.
func TestANameTakenMeanwhile(t *testing.T) {
	f := newFake(t, map[string]any{"refuseReplace": true})
	if _, err := f.Pull(t.Context(), fakeImage, vm.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	machine := f.machineDir("tk-a-0")
	f.path = wrapped(t, f.path, `case "$1" in clone) mkdir -p "`+machine+`"; touch "`+machine+`/theirs";; esac`)
	if err := f.Create(t.Context(), "tk-a-0", fakeImage, vm.Shape{}); !errors.Is(err, vm.ErrExists) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(machine, "theirs")); err != nil {
		t.Errorf("what somebody else made is gone: %v", err)
	}
}
