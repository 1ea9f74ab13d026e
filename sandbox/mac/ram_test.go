package mac

import (
	"testing"
)

// TestRAMDiskOnAMac makes one as a user does, and boots: it is gone, and what was
// in it never was on the disk.
func TestRAMDiskOnAMac(t *testing.T) {
	b := startBench(t, nil)
	const look = "ls -A /Users/m1/secrets; hdiutil info -plist | grep -c ram://"
	b.ok("mkdir -m 0700 /Users/m1/secrets && d=$(hdiutil attach -nomount ram://2048 | cut -c 1-10) && " +
		"newfs_hfs -v secrets /dev/rdisk${d#/dev/disk} && diskutil mount nobrowse -mountPoint /Users/m1/secrets $d")
	b.ok("chmod 0700 /Users/m1/secrets && echo hush >/Users/m1/secrets/token")
	if got := b.sh(look, ""); got.out != "token\n1\n" {
		t.Errorf("mounted: %+v", got)
	}
	if got := b.sh("dd if=/dev/zero of=/Users/m1/secrets/full bs=1048576 count=2", ""); got.rc == 0 {
		t.Errorf("a RAM disk of a megabyte holds two: %+v", got)
	}
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.sh(look, ""); got.out != "0\n" {
		t.Errorf("after a boot: %+v", got)
	}
	if u := b.Unmodelled(); len(u) != 0 {
		t.Errorf("unmodelled: %+v", u)
	}
}
