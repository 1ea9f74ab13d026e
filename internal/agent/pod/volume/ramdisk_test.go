package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// macTools answers like macOS' disk tools, with one RAM disk at most.
type macTools struct {
	ran     []string
	mounted string
	broken  string
	printed string
	// image is what hdiutil says is mounted; empty: a RAM disk.
	image string
}

func (m *macTools) Run(_ context.Context, name string, args ...string) (string, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	m.ran = append(m.ran, line)
	switch {
	case m.broken != "" && strings.HasPrefix(line, m.broken):
		return "", errors.New("exit status 1")
	case line == "hdiutil info -plist":
		return m.info(), nil
	case name == "hdiutil" && args[0] == "attach":
		return m.printed, nil
	case name == "diskutil":
		m.mounted = args[3]
	}
	return "", nil
}

func (m *macTools) info() string {
	image, kind := "", m.image
	if kind == "" {
		kind = "ram://524288"
	}
	if m.mounted != "" {
		image = `<dict><key>image-path</key><string>` + kind + `</string><key>system-entities</key><array><dict>` +
			`<key>dev-entry</key><string>/dev/disk5</string><key>mount-point</key><string>` + m.mounted + `</string></dict></array></dict>`
	}
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><plist version="1.0"><dict><key>images</key><array>%s</array></dict></plist>`, image)
}

func TestRAMDiskIsMadeOnce(t *testing.T) {
	at := filepath.Join(t.TempDir(), "secrets")
	mac := &macTools{printed: "/dev/disk5          \t         \t\n"}
	disk := &HDIUtil{Mount: at, Runner: mac}
	if _, made := disk.Made(); made {
		t.Fatal("a RAM disk that was never made is there")
	}
	for range 2 {
		if dir, err := disk.Dir(t.Context()); err != nil || dir != at {
			t.Fatalf("%q, %v", dir, err)
		}
	}
	want := []string{
		"hdiutil info -plist", "hdiutil attach -nomount ram://524288", "newfs_hfs -v macfleet-secrets /dev/rdisk5",
		"diskutil mount nobrowse -mountPoint " + at + " /dev/disk5",
	}
	if d := cmp.Diff(want, mac.ran); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, made := disk.Made(); !made {
		t.Error("a RAM disk that was made is not there")
	}
	// The next agent finds it.
	mac.ran = nil
	if _, err := (&HDIUtil{Mount: at, Runner: mac}).Dir(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want[:1], mac.ran); d != "" {
		t.Errorf("the next agent (-want +got):\n%s", d)
	}
	// A reboot: the directory below the mount point is empty again.
	mac.ran, mac.mounted = nil, ""
	if err := os.Remove(filepath.Join(at, ramMark)); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Dir(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, mac.ran); d != "" {
		t.Errorf("after a reboot (-want +got):\n%s", d)
	}
}

func TestRAMDiskFailures(t *testing.T) {
	for _, c := range []struct {
		broken, printed, step string
		detached              bool
	}{
		{"hdiutil info", "/dev/disk5\n", "listing attached disk images", false},
		{"hdiutil attach", "/dev/disk5\n", "attaching a RAM disk", false},
		{"nothing", "/dev/disk5 /dev/disk6\n", "attaching a RAM disk", false},
		{"nothing", "", "attaching a RAM disk", false},
		{"newfs_hfs", "/dev/disk5\n", "formatting the RAM disk", true},
		{"diskutil", "/dev/disk5\n", "mounting the RAM disk", true},
	} {
		mac := &macTools{printed: c.printed, broken: c.broken}
		disk := &HDIUtil{Mount: filepath.Join(t.TempDir(), "secrets"), Runner: mac}
		_, err := disk.Dir(t.Context())
		var ram *ramDiskError
		if !errors.As(err, &ram) || ram.Step != c.step {
			t.Errorf("%+v: %v", c, err)
		}
		if _, made := disk.Made(); made {
			t.Errorf("%+v: the RAM disk counts as made", c)
		}
		if detached := slices.Contains(mac.ran, "hdiutil detach /dev/disk5 -force"); detached != c.detached {
			t.Errorf("%+v: ran %q", c, mac.ran)
		}
	}
}

// An image on a disk that is mounted at our place is no RAM disk, whatever it is.
func TestSecretsNeedMemory(t *testing.T) {
	at := filepath.Join(t.TempDir(), "secrets")
	mac := &macTools{printed: "/dev/disk5\n", mounted: at, image: "/Users/m1/disk.dmg"}
	if _, err := (&HDIUtil{Mount: at, Runner: mac}).Dir(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(mac.ran, "hdiutil attach -nomount ram://524288") {
		t.Errorf("an image of a file is taken for a RAM disk: ran %q", mac.ran)
	}
}
