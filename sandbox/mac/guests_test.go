package mac

import (
	"strings"
	"testing"
)

// TestACommandInAGuestOfAMac goes through all that lies within each other: the
// machine of the tests, the Mac, its user, the guest.
func TestACommandInAGuestOfAMac(t *testing.T) {
	b := startBench(t, autoLogin)
	b.awaitSession()
	const tart = "/opt/homebrew/bin/tart"
	b.ok(tart + " clone ghcr.io/x/y:1 vm; mkdir share; printf shared >share/file")
	ended := make(chan outcome, 1)
	go func() {
		o, _ := b.try(tart+" run vm --dir in:$HOME/share:ro", "")
		ended <- o
	}()
	await(t, "the guest's agent", func() bool {
		select {
		case o := <-ended:
			t.Fatalf("the guest ended: %+v", o)
		default:
		}
		return b.sh(tart+" exec vm true", "").rc == 0
	})
	got := b.sh(tart+` exec vm /bin/sh -c 'id -u; head -c 6 "/Volumes/My Shared Files/in/file"; ls -d /.macsim; exit 7'`, "")
	if got.rc != 7 || got.out != "0\nshared" || !strings.Contains(got.err, "No such file") {
		t.Errorf("%+v", got)
	}
	b.sh(tart+" exec vm sudo -n /sbin/shutdown -h now", "")
	if o := <-ended; o.rc != 0 || !strings.Contains(o.out, "guest has stopped") {
		t.Errorf("run: %+v", o)
	}
}
