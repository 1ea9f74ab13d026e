package apfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howett.net/plist"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

const somebody = 502

// ramMounts are the mount points that hdiutil lists.
func ramMounts(t *testing.T, s *shelf) []string {
	t.Helper()
	var list struct {
		Images []struct {
			Path     string `plist:"image-path"`
			Entities []struct {
				Mount string `plist:"mount-point"`
			} `plist:"system-entities"`
		} `plist:"images"`
	}
	if _, err := plist.Unmarshal([]byte(s.HDIUtil(wire.UserUID, []string{"info", "-plist"}).Stdout), &list); err != nil {
		t.Fatal(err)
	}
	mounts := []string{}
	for _, i := range list.Images {
		mounts = append(mounts, i.Path+" "+i.Entities[0].Mount)
	}
	return mounts
}

func TestRAMDisk(t *testing.T) {
	s := newShelf(t)
	if err := os.MkdirAll(filepath.Join(s.o.Root, "Users/m1/secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	step := func(rc int, uid int, run func(int, []string) wire.Answer, line string) string {
		t.Helper()
		a := run(uid, strings.Fields(line))
		if a.RC != rc {
			t.Fatalf("%s: %+v, want rc %d", line, a, rc)
		}
		return a.Stdout
	}
	const mount = "mount nobrowse -mountPoint /Users/m1/secrets /dev/disk4"
	step(1, wire.UserUID, s.HDIUtil, "attach -nomount ram://many")
	step(rcUsage, wire.UserUID, s.HDIUtil, "attach image.dmg")
	if got := step(0, wire.UserUID, s.HDIUtil, "attach -nomount ram://2048"); strings.TrimSpace(got) != "/dev/disk4" {
		t.Errorf("attached as %q", got)
	}
	step(1, wire.UserUID, s.Diskutil, mount) // no file system yet
	step(1, somebody, s.NewfsHFS, "-v x /dev/rdisk4")
	step(1, wire.UserUID, s.NewfsHFS, "-v x /dev/rdisk5")
	if got := step(0, wire.UserUID, s.NewfsHFS, "-v x /dev/rdisk4"); got != "Initialized /dev/rdisk4 as a 1 MB case-insensitive HFS Plus volume\n" {
		t.Errorf("formatted: %q", got)
	}
	step(1, somebody, s.Diskutil, mount)
	if got := step(0, wire.UserUID, s.Diskutil, mount); got != "Volume x on /dev/disk4 mounted\n" {
		t.Errorf("mounted: %q", got)
	}
	step(1, wire.UserUID, s.Diskutil, mount)
	if got := ramMounts(t, s); len(got) != 1 || got[0] != "ram://2048 /Users/m1/secrets" {
		t.Errorf("listed: %q", got)
	}
	if err := os.WriteFile(filepath.Join(s.o.Root, "Users/m1/secrets/x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	step(0, wire.UserUID, s.HDIUtil, "attach -nomount ram://1")
	step(1, somebody, s.HDIUtil, "detach /dev/disk4")
	step(0, wire.UserUID, s.HDIUtil, "detach /dev/disk4 -force")
	if entries, _ := os.ReadDir(filepath.Join(s.o.Root, "Users/m1/secrets")); len(entries) > 0 {
		t.Errorf("the content outlives its disk: %v", entries)
	}
	s.boot()
	if got := ramMounts(t, s); len(got) != 0 {
		t.Errorf("RAM disks outlive the boot: %q", got)
	}
}
