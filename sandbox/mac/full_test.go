package mac

import (
	"strings"
	"testing"
)

func TestADiskThatIsFull(t *testing.T) {
	b := startBench(t, nil)
	b.root("mkdir -p /usr/local/libexec/x; echo kept >/usr/local/libexec/x/file; chmod 0640 /usr/local/libexec/x/file; ln -s x /usr/local/libexec/current")
	b.root("echo mine >/Users/Shared/mine; chown m1:staff /Users/Shared/mine")
	for _, dir := range []string{"/usr/local", "/Users/Shared"} {
		if err := b.FillDisk(t.Context(), FullDisk{Path: dir, Free: 10_000}); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.root("cat /usr/local/libexec/current/file; stat -f '%Su %Lp' /usr/local/libexec/x/file; stat -f %Su /Users/Shared/mine"); got.out != "kept\nroot 640\nm1\n" {
		t.Errorf("what was there: %+v", got)
	}
	if got := b.root("dd if=/dev/zero of=/usr/local/small bs=1k count=8 2>/dev/null && dd if=/dev/zero of=/usr/local/big bs=1k count=8"); got.rc == 0 || !strings.Contains(got.err, "o space left on device") {
		t.Errorf("writing 16 KiB where 10000 bytes are free: %+v", got)
	}
	if got := b.root("echo more >/usr/local/libexec/x/file; rm /usr/local/big"); got.rc != 0 {
		t.Errorf("tidying up: %+v", got)
	}
	if err := b.FillDisk(t.Context(), FullDisk{Path: "/usr/local", Undo: true}); err != nil {
		t.Fatal(err)
	}
	got := b.root("dd if=/dev/zero of=/usr/local/big bs=1k count=64 2>/dev/null; cat /usr/local/libexec/current/file; stat -f %z /usr/local/small")
	if got.rc != 0 || got.out != "more\n8192\n" {
		t.Errorf("after making room: %+v", got)
	}
}
