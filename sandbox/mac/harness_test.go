package mac

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// patience bounds every wait in these tests: far above what is needed, so that only a
// real hang fails one on a busy machine.
const patience = time.Minute

// programsEnv hands the built programs to the tests when they run themselves again.
const programsEnv = "MACSIM_TEST_PROGRAMS"

var programs string // the folder of the programs under test, built once by TestMain

var lastAddress atomic.Uint32

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "macsim")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if programs = os.Getenv(programsEnv); programs != "" {
		return m.Run()
	}
	programs = dir
	if err := goBuild("linux", "", dir, "./cmd/macsim", "./cmd/macshim"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return 1
	}
	return m.Run()
}

// goBuild builds packages to out, which is a folder where they are several.
func goBuild(goos, goarch, out string, pkgs ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-o", out}, pkgs...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos)
	if goarch != "" {
		cmd.Env = append(cmd.Env, "GOARCH="+goarch)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", strings.Join(pkgs, " "), err, text)
	}
	return nil
}

const testPassword = "correct horse"

// bench is a started Mac and the key that opens it.
type bench struct {
	*Mac
	t      *testing.T
	signer ssh.Signer
}

func (b *bench) authorizedKey() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(b.signer.PublicKey())))
}

func newBench(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, signer: signer}
	pid := uint32(os.Getpid())
	n := lastAddress.Add(1)
	o := Options{
		Programs: programs, Dir: t.TempDir(), SSHPort: freePort(t),
		Address:  netip.AddrFrom4([4]byte{127, byte(80 + pid%100), byte(pid >> 8), byte(n)}),
		Password: testPassword, AuthorizedKeys: []string{b.authorizedKey()}, TimeScale: 50,
	}
	o.Log = func(s string) {
		if t.Context().Err() == nil {
			t.Log(s)
		}
	}
	if change != nil {
		change(&o)
	}
	b.Mac, err = New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now: nothing would wait for the processes, which
		// write to the disk until they are gone.
		if err := b.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := removeAll(b.Root()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func startBench(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	b := newBench(t, change)
	err := b.Start(t.Context())
	var refused *RefusedError
	if errors.As(err, &refused) {
		t.Skipf("namespaces: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// dial connects as the user; the host key it met is returned too.
func (b *bench) dial(algorithms ...string) (*ssh.Client, ssh.PublicKey, error) {
	var met ssh.PublicKey
	c, err := ssh.Dial("tcp", b.Address().String(), &ssh.ClientConfig{
		User: "m1", Auth: []ssh.AuthMethod{ssh.PublicKeys(b.signer)}, Timeout: patience,
		HostKeyAlgorithms: algorithms,
		HostKeyCallback: func(_ string, _ net.Addr, k ssh.PublicKey) error {
			met = k
			return nil
		},
	})
	return c, met, err
}

type outcome struct {
	out, err string
	rc       int
}

// sh runs a script over SSH.
func (b *bench) sh(script string, stdin string) outcome {
	b.t.Helper()
	o, err := b.try(script, stdin)
	if err != nil {
		b.t.Fatalf("SSH: %v", err)
	}
	return o
}

// try runs a script on a Mac that may not be there; -1 is no exit code at all.
func (b *bench) try(script string, stdin string) (outcome, error) {
	c, _, err := b.dial()
	if err != nil {
		return outcome{}, err
	}
	defer c.Close()
	s, err := openSession(c)
	if err != nil {
		return outcome{}, err
	}
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader(stdin), &out, &errs
	err = s.Run(script)
	o := outcome{out: out.String(), err: errs.String()}
	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit):
		o.rc = exit.ExitStatus()
	case err != nil:
		o.rc = -1
	}
	return o, nil
}

// openSession does not wait for ever: the library may never answer who asks for a
// channel in the moment the connection ends.
func openSession(c *ssh.Client) (*ssh.Session, error) {
	type answer struct {
		session *ssh.Session
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		s, err := c.NewSession()
		answers <- answer{s, err}
	}()
	select {
	case a := <-answers:
		return a.session, a.err
	case <-time.After(patience / 2):
		return nil, errors.New("no session was opened in time")
	}
}

// ok runs a script that must succeed and returns its output.
func (b *bench) ok(script string) string {
	b.t.Helper()
	o := b.sh(script, "")
	if o.rc != 0 {
		b.t.Fatalf("%s: rc %d\n%s%s", script, o.rc, o.out, o.err)
	}
	return strings.TrimSpace(o.out)
}

// root makes sudo work without a password, then runs a script as root.
func (b *bench) root(script string) outcome {
	b.t.Helper()
	if b.sh("sudo -n true", "").rc != 0 {
		b.grant()
	}
	return b.sh("sudo -n /bin/sh", script)
}

// grant installs a drop-in the way a careful provider does.
func (b *bench) grant() {
	b.t.Helper()
	script := `read -r pw; printf '%s\n' "$pw" | sudo -S -k -p '' /bin/sh -c '
		t=$(mktemp /private/etc/.drop.XXXXXX) && echo "m1 ALL = (ALL) NOPASSWD: ALL" >"$t" &&
		visudo -cf "$t" >/dev/null && chown root:wheel "$t" && chmod 0440 "$t" && mv "$t" /etc/sudoers.d/zz-m1' && sudo -n true`
	if o := b.sh(script, testPassword+"\n"); o.rc != 0 {
		b.t.Fatalf("grant: %+v", o)
	}
}

// await polls a condition until it holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	awaitWithin(t, patience, what, holds)
}

func awaitWithin(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
