package remote

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// box is a folder that stands for a Mac's disk, with stub commands that note
// their arguments.
type box struct {
	t     *testing.T
	root  string
	shell []string
}

// inShells runs the test in every shell of this machine that a Mac could have as
// its /bin/sh.
func inShells(t *testing.T, test func(*testing.T, *box)) {
	for _, shell := range [][]string{{"sh"}, {"dash"}, {"bash", "--posix"}, {"bash"}, {"bash-3.2", "--posix"}, {"zsh", "--emulate", "sh"}, {"busybox", "ash"}} {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			path, err := exec.LookPath(shell[0])
			if err != nil {
				t.Skipf("this machine has no %s", shell[0])
			}
			test(t, newBox(t, append([]string{path}, shell[1:]...)))
		})
	}
}

const sudoStub = `
nopassword=
while :; do
  case $1 in
  -n) nopassword=1; shift ;;
  -S | -k) shift ;;
  -p) shift 2 ;;
  *) break ;;
  esac
done
if [ -f "$ROOT/narrow" ] && [ "$*" = "$ROOT/usr/local/libexec/macfleet/current/tart-kubelet converge --plan" ]; then exec "$@"; fi
if [ -f "$ROOT/etc/sudoers.d/m1-nopasswd" ] && [ ! -f "$ROOT/override" ] || [ -f "$ROOT/open" ]; then exec "$@"; fi
if [ "$nopassword" ]; then echo "sudo: a password is required" >&2; exit 1; fi
tries=0
while [ $tries -lt 3 ]; do
  IFS= read -r line || { echo "sudo: no password was provided" >&2; echo "sudo: 1 incorrect password attempt" >&2; exit 1; }
  echo x >>"$ROOT/verifications"
  if [ -f "$ROOT/locked" ]; then echo "sudo: Account is locked" >&2; exit 1; fi
  if [ "$line" = "$(cat "$ROOT/password")" ]; then exec "$@"; fi
  echo "Sorry, try again." >&2
  tries=$((tries + 1))
done
exit 1`

func newBox(t *testing.T, shell []string) *box {
	b := &box{t: t, root: t.TempDir(), shell: shell}
	for _, dir := range []string{"bin", "etc", "home", "var/db/macfleet", "usr/local/libexec/macfleet"} {
		if err := os.MkdirAll(b.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"cat", "mkdir", "mv", "rm", "chmod", "wc", "gunzip", "true", "sha256sum", "gzip", "sh"} {
		b.stub(name, "exec "+where(t, name)+` "$@"`)
	}
	b.stub("sudo", sudoStub)
	// What is left on root's stdin would show here.
	b.stub("visudo", `cat >>"$ROOT/leaked"; [ ! -f "$ROOT/badrule" ]`)
	b.stub("chown", "")
	b.stub("id", "echo m1")
	b.stub("shasum", `shift 2; exec `+where(t, "sha256sum")+` "$@"`)
	// A shell that has no printf of its own would show the password here.
	b.stub("printf", `exec `+where(t, "printf")+` "$@"`)
	return b
}

func where(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("this machine has no %s", name)
	}
	return path
}

func (b *box) path(name string) string { return filepath.Join(b.root, name) }

func (b *box) stub(name, body string) {
	b.t.Helper()
	text := "#!" + where(b.t, "sh") + "\nROOT=" + b.root + "\n" +
		`echo "` + name + ` $*" >>"$ROOT/argv"` + "\n" + body + "\n"
	b.put("bin/"+name, text, 0o755)
}

func (b *box) put(name, text string, mode os.FileMode) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) remove(name string) {
	b.t.Helper()
	if err := os.RemoveAll(b.path(name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return string(data)
}

// boxed turns the Mac's absolute paths in a snippet into those of the box.
func (b *box) boxed(text string) string {
	return strings.NewReplacer(
		"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "PATH="+b.path("bin"),
		"/etc/", b.path("etc")+"/",
		"/usr/local/", b.path("usr/local")+"/",
		"/var/db/", b.path("var/db")+"/",
		"/bin/sh", strings.Join(b.shell, " "),
	).Replace(text)
}

// run runs a snippet as it is sent, in the shell of the box.
func (b *box) run(stdin, snippet string, args ...string) string {
	b.t.Helper()
	words := slices.Concat(b.shell[1:], []string{"-c", b.boxed(snippet)})
	for _, a := range args {
		words = append(words, b.boxed(a))
	}
	cmd := exec.Command(b.shell[0], words...)
	cmd.Env = b.env()
	cmd.Dir = b.path("home")
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%v: %s", err, stderr.String())
	}
	b.put("stderr", stderr.String(), 0o600)
	return string(out)
}

func (b *box) env() []string {
	return []string{"HOME=" + b.path("home"), "PATH=" + b.path("bin"), "SSH_CONNECTION=203.0.113.9 50022 192.0.2.4 22"}
}

func (b *box) grant(password string) string {
	b.t.Helper()
	answer, _ := word([]byte(b.run(password+"\n", grantSnippet, "macfleet-grant", grantRootSnippet)), "grant")
	return answer
}

func (b *box) verifications() int { return strings.Count(b.read("verifications"), "x") }
