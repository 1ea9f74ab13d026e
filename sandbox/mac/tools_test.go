package mac

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ulikunitz/xz"
)

// TestTools checks the plain tools where scripts lean on them.
func TestTools(t *testing.T) {
	tests := []struct{ script, want string }{
		{"mkdir -p -m 0700 a/b && stat -f '%Lp %Su %HT' a/b", "700 m1 Directory"},
		{"mkdir a; echo $?", "1"},
		{"umask 027; mkdir masked; stat -f %Lp masked", "750"},
		{"echo x >f; chmod u+x,go-r f; stat -f %Lp f; chmod 0440 f; stat -f '%Lp %z' f; chmod -w f; chmod +x f; stat -f %Sp f", "700\n440 2\n-r-xr-x--x"},
		{"mv f g; ls f; echo $?; cat g", "1\nx"},
		{"cp g h && rm g && cat h; rm g 2>/dev/null; echo $?; rm -f g; echo $?", "x\n1\n0"},
		{"ln -s h l; readlink l; ln -sfn a l; readlink l; stat -f %HT l; stat -L -f %HT l", "h\na\nSymbolic Link\nDirectory"},
		{"printf 'a b c\\nd e f\\n' | cut -d ' ' -f 2-", "b c\ne f"},
		{"printf 'one\\ntwo\\nthree\\n' | head -n 2 | tail -n 1", "two"},
		{"printf 'one\\ntwo\\nthree\\n' | tail -n +2", "two\nthree"},
		{"printf abcdef | head -c 3; printf abcdef | tail -c +5", "abcef"},
		{"printf 'a-B' | tr 'a-z' 'A-Z' | tr -d '-'", "AB"},
		{"printf '1\\n2\\n' | wc -l; printf 'a b' | wc -w -c", "       2\n       2       3"},
		{"printf abcdefgh | dd bs=2 skip=1 count=2 2>/dev/null", "cdef"},
		{"printf abcdefgh >d; printf XY | dd of=d bs=1 seek=2 conv=notrunc 2>/dev/null; cat d", "abXYefgh"},
		{"d=$(mktemp -d) && case $d in /var/folders/*) test -d $d && stat -f %Lp $d ;; esac", "700"},
		{"mktemp /tmp/x.XXXXXX | cut -c 1-7; stat -f '%Su %Lp' /tmp/x.*", "/tmp/x.\nm1 600"},
		{"printf hello >s; shasum -a 256 s | tee sums | cut -c 1-8; shasum -a 256 -c sums; echo y >s; shasum -a 256 -c sums; echo $?", "2cf24dba\ns: OK\ns: FAILED\n1"},
		{"printf 'b\\na\\nb\\n' | sort -u; printf 'k=v\\n' | grep -c '^k='; printf x | grep -q y; echo $?", "a\nb\n1\n1"},
		{"basename /a/b.c .c; dirname /a/b.c", "b\n/a"},
		{"A=1 env B=2 /bin/sh -c 'echo $A$B'", "12"},
		{"scutil --get HostName 2>&1; echo $?; sudo -n true 2>/dev/null; id -G; id -gn", "HostName: not set\n1\n20 80\nstaff"},
		{"sysctl -n hw.ncpu hw.memsize; ioreg -rd1 -c IOPlatformExpertDevice | grep -c IOPlatformSerialNumber", "8\n17179869184\n1"},
		{"mkdir /Library/x 2>/dev/null; echo $?; rm -rf /tmp 2>/dev/null; echo $?; ls -d /tmp", "1\n1\n/tmp"},
		{"PATH=$PATH:/opt/homebrew/bin tart list --format json | tr -d '\\n'", "[]"},
		{"TART_HOME=/Volumes/none/tart /opt/homebrew/bin/tart list 2>&1; echo $?; test -e /Volumes/none; echo $?", "Error: preparing TART_HOME: mkdir /Volumes/none: permission denied\n1\n1"},
	}
	b := startBench(t, nil)
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, strings.TrimRight(b.sh(tt.script, "").out, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.script, diff)
		}
	}
	if u := b.Unmodelled(); len(u) != 0 {
		t.Errorf("unmodelled: %+v", u)
	}
}

func TestGunzip(t *testing.T) {
	b := startBench(t, nil)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if got := b.sh("gunzip -c", packed.String()); got.rc != 0 || got.out != "hello" {
		t.Errorf("a gzip file: %+v", got)
	}
	if got := b.sh("gunzip -c", packed.String()[:packed.Len()-6]); got.rc != 1 {
		t.Errorf("a short gzip file: %+v", got)
	}
	if got := b.sh("gunzip -c </etc/hosts", ""); got.rc != 1 {
		t.Errorf("no gzip file: %+v", got)
	}
}

func TestXZ(t *testing.T) {
	b := startBench(t, nil)
	var packed bytes.Buffer
	z, err := xz.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]int{"xz -dc": 0, "gunzip -c": 0, "gzip -dc": 0, "head -c 20 | xz -dc": 1, "printf hello | xz -dc": 1} {
		if got := b.sh(script, packed.String()); got.rc != want || (got.out == "hello") != (want == 0) {
			t.Errorf("%s: %+v, want rc %d", script, got, want)
		}
	}
}
