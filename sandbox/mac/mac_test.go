package mac

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
)

func TestFirstContact(t *testing.T) {
	b := startBench(t, nil)
	script := `sw_vers -productVersion; uname -m; sysctl -n hw.model kern.hv_support; id -un; id -u; stat -f %Su /dev/console
		pwd; echo "$PATH"; sudo -n true 2>/dev/null; echo $?; stat -f %Su:%Sg:%Lp /etc/sudoers /Library/LaunchDaemons .ssh
		fdesetup status; ls -d /home /usr/local/bin 2>/dev/null; df -k / | wc -l`
	want := []string{
		"15.6.1", "arm64", "Mac14,3", "1", "m1", "501", "root",
		"/Users/m1", "/usr/bin:/bin:/usr/sbin:/sbin", "1", "root:wheel:440", "root:wheel:755", "m1:staff:700",
		"FileVault is Off.", "       2",
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), b.ok(script)); diff != "" {
		t.Errorf("probe (-want +got):\n%s", diff)
	}
	if u := b.Unmodelled(); len(u) != 0 {
		t.Errorf("unmodelled: %+v", u)
	}
}

func TestUnmodelledIsLoud(t *testing.T) {
	b := startBench(t, nil)
	tests := []struct {
		script, argv string
		rc           int
	}{
		{"osascript -e x", "osascript", 127},
		{"jq .", "/bin/sh", 127},
		{"stat -c %U /", "stat", 64},
		{"ls --color", "ls", 64},
	}
	for _, tt := range tests {
		if got := b.sh(tt.script, ""); got.rc != tt.rc {
			t.Errorf("%s: rc %d, want %d", tt.script, got.rc, tt.rc)
		}
		recorded := slices.ContainsFunc(b.Unmodelled(), func(e Execution) bool { return e.Argv[0] == tt.argv && e.RC == tt.rc })
		if !recorded {
			t.Errorf("%s: not recorded in %+v", tt.script, b.Unmodelled())
		}
	}
}

func TestStreamsAndExitCodes(t *testing.T) {
	b := startBench(t, nil)
	data := make([]byte, 20<<20)
	if _, err := io.ReadFull(rand.Reader, data); err != nil {
		t.Fatal(err)
	}
	got := b.sh("cat >big && shasum -a 256 <big && cat big | tee copy | wc -c && cmp big copy; exit 7", string(data))
	want := fmt.Sprintf("%x  -\n %d\n", sha256.Sum256(data), len(data))
	if got.rc != 7 || got.out != want {
		t.Errorf("rc %d, out %q, err %q, want rc 7, out %q", got.rc, got.out, got.err, want)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(data))
	if !slices.ContainsFunc(b.Transcript(), func(e Execution) bool { return e.Argv[0] == "cat" && e.StdinSHA256 == digest && e.UID == 501 }) {
		t.Error("the transcript does not hold the digest of what cat read")
	}
	if got := b.sh("kill -TERM $$", ""); got.rc == 0 {
		t.Errorf("a killed shell: %+v", got)
	}
}

func TestDroppedConnectionKills(t *testing.T) {
	b := startBench(t, nil)
	c, _, err := b.dial()
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("echo $$; sleep 1000; echo never >survived"); err != nil {
		t.Fatal(err)
	}
	pid, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	alive := "kill -0 " + strings.TrimSpace(pid)
	b.ok(alive)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the shell to be killed", func() bool { return b.sh(alive, "").rc != 0 })
	if b.sh("ls survived", "").rc == 0 {
		t.Error("the script went on")
	}
}

func TestTerminal(t *testing.T) {
	b := startBench(t, nil)
	c, _, err := b.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s.Stdout, s.Stdin = &out, strings.NewReader("test -t 0 && echo ter\"\"minal\nexit 3\n")
	if err := s.RequestPty("xterm", 24, 80, ssh.TerminalModes{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err == nil || !strings.Contains(out.String(), "terminal") {
		t.Errorf("shell ended with %v after %q", err, out.String())
	}
}

func TestStrangersAreRefused(t *testing.T) {
	b := startBench(t, nil)
	stranger := newBench(t, nil)
	stranger.Mac = b.Mac
	if _, _, err := stranger.dial(); err == nil {
		t.Error("a key that is not authorized got in")
	}
}

// TestNothingOutsideIsWritten lets the Mac's root try its worst on paths that
// exist on the real machine as well.
func TestNothingOutsideIsWritten(t *testing.T) {
	b := startBench(t, nil)
	outside := t.TempDir()
	before := snapshot(t, outside)
	up := strings.Repeat("../", 40)
	script := fmt.Sprintf(`for p in /macsim-escape /etc/macsim-escape /tmp/macsim-escape %[1]smacsim-escape \
		/proc/self/root/macsim-escape /proc/1/root/macsim-escape2 /proc/1/cwd/%[1]smacsim-escape3; do echo x >"$p" || echo "no $p"; done
		mkdir -p %[2]s && echo x >%[2]s/escape
		echo x >/.macsim/macsim; rm -rf /.macsim/twins; echo x >/bin/sh`, up, outside)
	got := b.root(script)
	if diff := cmp.Diff(before, snapshot(t, outside)); diff != "" {
		t.Errorf("outside changed:\n%s", diff)
	}
	for _, p := range []string{"/macsim-escape", "/etc/macsim-escape", "/tmp/macsim-escape", "/macsim-escape2", "/macsim-escape3"} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s appeared on the real machine", p)
		}
	}
	for _, p := range []string{"macsim-escape", "private/etc/macsim-escape", "private/tmp/macsim-escape", strings.TrimPrefix(outside, "/") + "/escape"} {
		if _, err := os.Stat(filepath.Join(b.Root(), p)); err != nil {
			t.Errorf("the write did not land inside: %v (%+v)", err, got)
		}
	}
	if b.ok("echo alive") != "alive" {
		t.Error("the lent files were damaged")
	}
}

func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			seen[p] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"no loopback address": {Programs: "p", Dir: t.TempDir(), Address: netip.MustParseAddr("192.0.2.1")},
		"no address":          {Programs: "p", Dir: t.TempDir()},
		"no programs":         {Dir: t.TempDir(), Address: netip.MustParseAddr("127.0.0.2")},
		"no folder":           {Programs: "p", Address: netip.MustParseAddr("127.0.0.2")},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
