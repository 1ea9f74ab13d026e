package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
)

func TestSnippetsAreSmallAndSafeToQuote(t *testing.T) {
	for name, text := range map[string]string{
		"probe": probeSnippet, "grant": grantSnippet, "grant-root": grantRootSnippet, "receive": receiveSnippet,
	} {
		if strings.Contains(text, "'") {
			t.Errorf("%s holds a single quote", name)
		}
		if lines := strings.Count(text, "\n"); lines >= 40 {
			t.Errorf("%s has %d lines", name, lines)
		}
	}
}

// Requirement 003: the password goes to sudo once, and nowhere else.
func TestGrantSpendsOneVerification(t *testing.T) {
	const right = ` p4 ss\n"w$(o)r'd* `
	inShells(t, func(t *testing.T, b *box) {
		for _, c := range []struct {
			name, password, file string
			want                 GrantOutcome
			spent                int
		}{
			{"wrong", "wrong", "", PasswordRejected, 1},
			{"empty", "", "", NoPassword, 0},
			{"locked", right, "locked", AccountLocked, 1},
			{"bad rule", right, "badrule", GrantFailed, 1},
			{"overridden", right, "override", RuleOverridden, 1},
			{"right", right, "", "granted", 1},
		} {
			b.put("password", right, 0o600)
			if c.file != "" {
				b.put(c.file, "", 0o600)
			}
			before := b.verifications()
			if got := b.grant(c.password); got != string(c.want) {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
			if spent := b.verifications() - before; spent != c.spent {
				t.Errorf("%s: %d verifications, want %d", c.name, spent, c.spent)
			}
			if c.file != "" {
				_ = os.Remove(b.path(c.file))
			}
			if c.want != "granted" {
				_ = os.Remove(b.path("etc/sudoers.d/m1-nopasswd"))
			}
		}
		_ = os.Remove(b.path("password"))
		b.nowhere(right)
		b.nowhere("wrong")
		if got := b.read("etc/sudoers.d/m1-nopasswd"); got != "m1 ALL=(ALL) NOPASSWD: ALL\n" {
			t.Errorf("rule %q", got)
		}
		if info, err := os.Stat(b.path("etc/sudoers.d/m1-nopasswd")); err != nil || info.Mode().Perm() != 0o440 {
			t.Errorf("rule's mode: %v %v", info, err)
		}
		if !strings.Contains(b.read("argv"), "chown root:wheel ") {
			t.Error("the rule does not belong to root")
		}
	})
}

// nowhere fails when a password is in a file of the box, among the arguments of
// a command or in what was written to stderr.
func (b *box) nowhere(password string) {
	b.t.Helper()
	err := filepath.WalkDir(b.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && bytes.Contains(data, []byte(password)) {
			b.t.Errorf("%s holds the password", path)
		}
		return err
	})
	if err != nil {
		b.t.Error(err)
	}
}

// Where sudo asks nothing, the password must not become a rule.
func TestGrantWhereSudoAsksNothing(t *testing.T) {
	inShells(t, func(t *testing.T, b *box) {
		b.put("open", "", 0o600)
		if got := b.grant("pass word"); got != "granted" {
			t.Errorf("%q", got)
		}
		if got := b.read("etc/sudoers.d/m1-nopasswd"); got != "m1 ALL=(ALL) NOPASSWD: ALL\n" {
			t.Errorf("rule %q", got)
		}
		if b.verifications() != 0 {
			t.Error("a verification was spent")
		}
		b.nowhere("pass word")
	})
}

func TestProbeInShells(t *testing.T) {
	inShells(t, func(t *testing.T, b *box) {
		b.stub("sw_vers", `case $1 in -productVersion) echo 15.6.1 ;; *) echo 24G90 ;; esac`)
		b.stub("uname", "echo arm64")
		b.stub("sysctl", `case $2 in hw.model) echo Mac14,3 ;; hw.memsize) echo 17179869184 ;; hw.ncpu) echo 8 ;;
kern.bootsessionuuid) echo ABC ;; *) echo "unknown oid" >&2; exit 1 ;; esac`)
		b.stub("ioreg", `printf '+-o Mac14,3\n    {\n      "IOPlatformUUID" = "U-1"\n      "IOPlatformSerialNumber" = "C07\\X"\n    }\n'`)
		b.stub("df", `[ "$2" = / ] || exit 1
printf 'Filesystem 1024-blocks Used Available Capacity iused ifree %%iused Mounted on\n/dev/disk3s5 200 100 50 67%% 1 2 0%% /\n'`)
		b.stub("fdesetup", `printf "FileVault is Off.\nDeferred enablement appears to be active for user 'm1'.\n"`)
		b.stub("stat", "echo m1")
		for _, dir := range []string{buildA, buildB} {
			if err := os.MkdirAll(b.path("usr/local/libexec/macfleet/"+dir), 0o755); err != nil {
				t.Fatal(err)
			}
			b.put("usr/local/libexec/macfleet/"+dir+"/tart-kubelet", "#!"+where(t, "sh")+"\nread -r document || exit 64\n", 0o755)
		}
		if err := os.Symlink(buildB, b.path("usr/local/libexec/macfleet/current")); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(b.path("home/.macfleet/staging"), 0o700); err != nil {
			t.Fatal(err)
		}
		b.put("home/.macfleet/staging/"+buildA, "12345", 0o700)
		b.put("etc/sudoers", "", 0o600)
		journal, err := document.EncodeDiskMarker(document.DiskMarker{Epoch: 7, Name: "ci-7"})
		if err != nil {
			t.Fatal(err)
		}
		b.put("var/db/macfleet/journal.json", string(journal), 0o600)

		f, complete := parseFacts(b.run("", probeSnippet))
		if !complete || f.Sudo || f.SudoAgent || f.DiskMarker != nil {
			t.Errorf("without sudo: complete %v, %+v", complete, f)
		}
		if b.verifications() != 0 {
			t.Error("the probe spends a verification")
		}
		b.put("narrow", "", 0o600)
		if f, _ = parseFacts(b.run("", probeSnippet)); f.Sudo || !f.SudoAgent || f.DiskMarker != nil {
			t.Errorf("with the agent's verbs only: %+v", f)
		}
		// An agent that does not run cannot take a build either: root is needed.
		b.put("usr/local/libexec/macfleet/"+buildB+"/tart-kubelet", "#!"+where(t, "sh")+"\nkill -9 $$\n", 0o755)
		if f, _ = parseFacts(b.run("", probeSnippet)); f.SudoAgent {
			t.Error("an agent that is killed counts as a way to root")
		}
		b.put("open", "", 0o600)
		f, _ = parseFacts(b.run("", probeSnippet))
		if f.OSVersion != "15.6.1" || f.Build != "24G90" || f.Arch != "arm64" || f.Model != "Mac14,3" || f.CPUs != 8 ||
			f.BootSession != "ABC" || f.Serial != `C07\X` || f.PlatformUUID != "U-1" || f.DiskFreeBytes != 50<<10 ||
			f.FileVault != On || f.ConsoleUser != "m1" || f.User != "m1" || f.Client.String() != "203.0.113.9" || !f.Sudo || f.SudoAgent || f.CurrentAgent != buildB ||
			len(f.InstalledBuilds) != 2 || f.Staged[buildA] != 5 || f.DiskMarker == nil || f.DiskMarker.Epoch != 7 {
			t.Errorf("%+v", f)
		}
	})
}

// testBuild is incompressible, so that packed and plain sizes are alike.
func testBuild(t *testing.T, size int) *Build {
	t.Helper()
	data := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(data)
	b, err := NewBuild(data)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *box) staged(name string) string { return b.path("home/.macfleet/staging/" + name) }

// holds checks that the staging folder holds this build and nothing else.
func (b *box) holds(build *Build) {
	b.t.Helper()
	entries, err := os.ReadDir(b.staged(""))
	if err != nil || len(entries) != 1 || entries[0].Name() != build.SHA256 {
		b.t.Errorf("staging holds %v (%v)", entries, err)
		return
	}
	data, err := os.ReadFile(b.staged(build.SHA256))
	if err != nil || document.Hash(data) != build.SHA256 {
		b.t.Errorf("the staged build is another (%v)", err)
	}
	if info, err := os.Stat(b.staged(build.SHA256)); err != nil || info.Mode().Perm() != 0o700 {
		b.t.Errorf("mode %v (%v)", info.Mode(), err)
	}
}

func TestReceiveInShells(t *testing.T) {
	build := testBuild(t, 200_000)
	inShells(t, func(t *testing.T, b *box) {
		b.put("home/x", "", 0o600)
		steps := []struct {
			name, stdin, want string
		}{
			{"nonsense", "../x ../y 1\n", "receive failed\n"},
			{"no header", "", "receive failed\n"},
			{"first half", build.header() + packed(t, build)[:90_000], "have 0\nreceive short\n"},
			{"second half", build.header() + packed(t, build)[90_000:], "have 90000\nreceive staged\n"},
			{"again", build.header(), "receive staged\n"},
		}
		for _, s := range steps {
			if got := b.run(s.stdin, receiveSnippet); got != s.want {
				t.Fatalf("%s: %q, want %q", s.name, got, s.want)
			}
		}
		b.holds(build)
	})
}

func TestReceiveHealsWhatIsDamaged(t *testing.T) {
	build := testBuild(t, 5_000)
	part := build.packedSHA256 + ".part"
	whole := build.header() + packed(t, build)
	inShells(t, func(t *testing.T, b *box) {
		if err := os.MkdirAll(b.staged(""), 0o700); err != nil {
			t.Fatal(err)
		}
		stage := func(name, text string) { b.put("home/.macfleet/staging/"+name, text, 0o600) }
		stage(part, "garbage")
		if got := b.run(build.header()+packed(t, build)[7:], receiveSnippet); got != "have 7\nreceive corrupt\n" {
			t.Errorf("wrong beginning: %q", got)
		}
		stage(part, strings.Repeat("x", 10_000))
		stage("stale", "another build")
		stage(build.SHA256, "half a build")
		if got := b.run(whole, receiveSnippet); got != "have 0\nreceive staged\n" {
			t.Errorf("damaged files: %q", got)
		}
		b.holds(build)
	})
}

func TestUploadCutAnywhereIsResumed(t *testing.T) {
	b := newBox(t, []string{where(t, "sh")})
	build := testBuild(t, 300_000)
	key := newSigner(t)
	s := newServer(t, key)
	s.handle = running(b.boxed, b.env()...)
	var left atomic.Int64
	left.Store(1 << 40)
	s.wrap = func(c net.Conn) net.Conn { return cutting{c, &left} }

	var travelled int64
	cuts := 0
	for _, after := range []int64{3_000, 6_000, 40_001, 77_777, 120_000, 1 << 40} {
		left.Store(after)
		session, err := s.reach(t.Context(), s.target(key))
		if err != nil {
			var unreachable *Unreachable
			if !errors.As(err, &unreachable) {
				t.Fatalf("cut after %d: %v", after, err)
			}
			cuts++
			continue
		}
		sent, err := session.Receive(t.Context(), build)
		_ = session.Close()
		// The other side ends by itself; only then is what it wrote settled.
		s.execs.Wait()
		if after == 1<<40 {
			if err != nil {
				t.Fatal(err)
			}
			travelled = sent
			continue
		}
		if err == nil {
			t.Fatalf("cut after %d: no error", after)
		}
		var lost *Lost
		var unreachable *Unreachable
		if !errors.As(err, &lost) && !errors.As(err, &unreachable) {
			t.Errorf("cut after %d: %T %v", after, err, err)
		}
		cuts++
	}
	b.holds(build)
	if cuts != 5 || travelled >= build.PackedSize()-60_000 { // each cut loses what was on its way
		t.Errorf("%d cuts, then %d of %d bytes travelled", cuts, travelled, build.PackedSize())
	}
}

func TestUploadOfWhatIsThereSendsNothing(t *testing.T) {
	b := newBox(t, []string{where(t, "sh")})
	build := testBuild(t, 50_000)
	key := newSigner(t)
	s := newServer(t, key)
	s.handle = running(b.boxed, b.env()...)
	session := s.dial(key)
	for i, want := range []int64{build.PackedSize(), 0} {
		sent, err := session.Receive(t.Context(), build)
		if err != nil || sent != want {
			t.Errorf("upload %d: sent %d, want %d (%v)", i, sent, want, err)
		}
	}
}

func TestHostileAnswersToAnUpload(t *testing.T) {
	key := newSigner(t)
	for out, refused := range map[string]bool{
		"have 999999999\n": false, "have -1\n": false, "have x\n": false, "receive great\n": false,
		"receive corrupt\n": true, "receive full\n": true,
	} {
		s := newServer(t, key)
		s.handle = answeringAtOnce(out)
		_, err := s.dial(key).Receive(t.Context(), testBuild(t, 100))
		var r *ReceiveRefused
		var bad *badAnswer
		if refused && !errors.As(err, &r) || !refused && !errors.As(err, &bad) {
			t.Errorf("%q: got %T %v", out, err, err)
		}
	}
	flood := newServer(t, key)
	flood.handle = answeringAtOnce(strings.Repeat("x", 10*maxWords))
	var lost *Lost
	if _, err := flood.dial(key).Receive(t.Context(), testBuild(t, 100)); !errors.As(err, &lost) {
		t.Errorf("flood: got %v", err)
	}
}

func TestBuildsAreBounded(t *testing.T) {
	if _, err := NewBuild(nil); err == nil {
		t.Error("an empty build is packed")
	}
	if _, err := ReadBuild(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	path := filepath.Join(t.TempDir(), "build")
	if err := os.WriteFile(path, []byte("agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := ReadBuild(path)
	if err != nil || b.SHA256 != document.Hash([]byte("agent")) || b.Size != 5 {
		t.Errorf("%+v (%v)", b, err)
	}
	if want := fmt.Sprintf("%s %s %d\n", b.SHA256, document.Hash([]byte(packed(t, b))), b.PackedSize()); b.header() != want {
		t.Errorf("header %q", b.header())
	}
}

// A build that was compressed before is the same to a Mac, and one that is damaged is no build.
func TestABuildThatIsCompressedAlready(t *testing.T) {
	whole := testBuild(t, 200_000)
	path := filepath.Join(t.TempDir(), "build"+PackedSuffix)
	put := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(packed(t, whole))
	b, err := ReadBuild(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.header() != whole.header() || b.Size != whole.Size || packed(t, b) != packed(t, whole) {
		t.Errorf("%q of %d bytes, want %q of %d", b.header(), b.Size, whole.header(), whole.Size)
	}
	inShells(t, func(_ *testing.T, box *box) {
		if got := box.run(b.header()+packed(t, b), receiveSnippet); got != "have 0\nreceive staged\n" {
			t.Errorf("said %q", got)
		}
		box.holds(whole)
	})
	for _, damaged := range []string{"", "agent", packed(t, whole)[:100_000], packed(t, whole) + "x"} {
		put(damaged)
		if _, err := ReadBuild(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%d bytes of it: %v", len(damaged), err)
		}
	}
}

func packed(t *testing.T, b *Build) string {
	t.Helper()
	text, err := io.ReadAll(b.from(0))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
