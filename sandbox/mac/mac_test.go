package mac

import (
	"strings"
	"testing"
)

func TestFirstContact(t *testing.T) {
	b := startBench(t, nil)
	script := `sw_vers -productVersion; uname -m; sysctl -n hw.model kern.hv_support; id -un; id -u; stat -f %Su /dev/console; pwd; echo "$PATH"; sudo -n true; echo $?`
	got := b.ok(script)
	want := strings.Join([]string{"15.6.1", "arm64", "Mac14,3", "1", "m1", "501", "m1", "/Users/m1", "/usr/bin:/bin:/usr/sbin:/sbin", "1"}, "\n")
	if got != want {
		t.Errorf("probe:\n%s\nwant:\n%s", got, want)
	}
	if u := b.Unmodelled(); len(u) != 0 {
		t.Errorf("unmodelled: %+v", u)
	}
}
