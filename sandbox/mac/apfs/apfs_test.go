package apfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howett.net/plist"
)

const (
	size = 500 << 30
	used = 60 << 30
)

// shelf is a disk whose list survives in memory.
type shelf struct {
	t     *testing.T
	o     Options
	saved []Volume
	*Disk
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{t: t}
	s.o = Options{
		Save: func(v []Volume) error {
			s.saved = v
			return nil
		},
		Size: func() int64 { return size }, Used: func() int64 { return used }, Root: t.TempDir(), Seed: "x",
	}
	if err := os.Mkdir(filepath.Join(s.o.Root, "Volumes"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.boot()
	return s
}

func (s *shelf) boot() {
	s.t.Helper()
	s.o.Volumes = s.saved
	d, err := Boot(s.o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Disk = d
}

func (s *shelf) run(uid, rc int, line ...string) string {
	s.t.Helper()
	a := s.Diskutil(uid, line)
	if a.RC != rc {
		s.t.Fatalf("diskutil %v: %+v, want rc %d", line, a, rc)
	}
	return a.Stdout
}

type info struct {
	DeviceIdentifier, VolumeUUID, VolumeName, MountPoint, APFSContainerReference string
	CapacityQuota                                                                int64
	GlobalPermissionsEnabled, Error                                              bool
}

func (s *shelf) info(which string) info {
	s.t.Helper()
	var i info
	if _, err := plist.Unmarshal([]byte(s.Diskutil(501, []string{"info", "-plist", which}).Stdout), &i); err != nil {
		s.t.Fatal(err)
	}
	return i
}

func (s *shelf) write(path string, n int) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.o.Root, path), make([]byte, n), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func TestVolumeFromAddToDelete(t *testing.T) {
	s := newShelf(t)
	data := s.info(dataMount)
	if data.APFSContainerReference != container || data.VolumeUUID == "" || s.info("/").VolumeUUID == data.VolumeUUID {
		t.Fatalf("the data volume: %+v", data)
	}
	s.run(501, 1, "apfs", "addVolume", container, "APFS", "guests")
	out := s.run(0, 0, "apfs", "addVolume", container, "APFS", "guests", "-quota", "1000000B")
	if !strings.Contains(out, "Disk from APFS operation: disk3s7") {
		t.Errorf("output: %s", out)
	}
	v := s.info("disk3s7")
	if v.MountPoint != "/Volumes/guests" || v.CapacityQuota != 1000000 || v.GlobalPermissionsEnabled || v.VolumeName != "guests" {
		t.Fatalf("the volume: %+v", v)
	}
	s.run(0, 0, "enableOwnership", v.VolumeUUID)
	s.write("Volumes/guests/disk.img", 300000)
	if got := s.DF("/", []string{"-k", "/Volumes/guests/disk.img"}).Stdout; !strings.Contains(got, "       976       292       683 ") {
		t.Errorf("df: %s", got)
	}
	s.run(501, 0, "unmount", v.VolumeUUID)
	if _, err := os.Stat(filepath.Join(s.o.Root, "Volumes/guests")); err == nil || s.info(v.VolumeUUID).MountPoint != "" {
		t.Error("still mounted")
	}
	s.run(501, 0, "mount", v.VolumeUUID)
	if got := s.info("/Volumes/guests"); got.VolumeUUID != v.VolumeUUID || !got.GlobalPermissionsEnabled {
		t.Errorf("mounted again: %+v", got)
	}
	s.run(0, 0, "apfs", "deleteVolume", v.VolumeUUID)
	if got := s.info(v.VolumeUUID); !got.Error || len(s.saved) != 0 {
		t.Errorf("deleted: %+v, saved %v", got, s.saved)
	}
}

func TestTwoVolumesOfOneName(t *testing.T) {
	s := newShelf(t)
	for range 2 {
		s.run(0, 0, "apfs", "addVolume", container, "APFS", "guests")
	}
	if a, b := s.info("disk3s7"), s.info("disk3s8"); a.MountPoint != "/Volumes/guests" || b.MountPoint != "/Volumes/guests 1" {
		t.Errorf("mounted at %q and %q", a.MountPoint, b.MountPoint)
	}
}

func TestBootMountsVolumes(t *testing.T) {
	s := newShelf(t)
	s.run(0, 0, "apfs", "addVolume", container, "APFS", "guests")
	uuid := s.info("disk3s7").VolumeUUID
	s.write("Volumes/guests/kept", 3)
	away := true
	s.o.StayUnmounted = func() bool { return away }
	s.boot()
	if got := s.info(uuid); got.MountPoint != "" || got.Error {
		t.Errorf("a volume that stays away: %+v", got)
	}
	away = false
	s.boot()
	if _, err := os.Stat(filepath.Join(s.o.Root, "Volumes/guests/kept")); err != nil {
		t.Error(err)
	}
	s.boot() // from mounted to mounted
	if got := s.info(uuid); got.MountPoint != "/Volumes/guests" {
		t.Errorf("mounted at %q", got.MountPoint)
	}
}

func TestRefusals(t *testing.T) {
	s := newShelf(t)
	s.run(0, 0, "apfs", "addVolume", container, "APFS", "guests")
	yes := func() bool { return true }
	s.o.AddFails, s.o.Busy = yes, yes
	s.boot()
	for _, line := range []string{
		"apfs addVolume disk3 APFS more", "apfs addVolume disk9 APFS more", "apfs addVolume disk3 APFS more -quota much",
		"unmount disk3s7", "apfs deleteVolume disk3s7", "apfs deleteVolume disk3s5", "mount nowhere", "info nowhere",
	} {
		s.run(0, 1, strings.Fields(line)...)
	}
	s.run(0, 64, "eraseDisk", "APFS", "x", "disk3")
	if got := s.DF("/", []string{"-k", "/nowhere"}); got.RC != 1 {
		t.Errorf("df of nothing: %+v", got)
	}
}

func TestParseSize(t *testing.T) {
	tests := map[string]int64{"5000B": 5000, "20g": 20e9, "20GB": 20e9, "1t": 1e12, "7": 7, "g": 0, "-5g": 0, "5x": 0, "": 0}
	for in, want := range tests {
		got, ok := parseSize(in)
		if ok != (want > 0) || (ok && got != want) {
			t.Errorf("%q: %d %t, want %d", in, got, ok, want)
		}
	}
}
