package fidelity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/remote"
)

// port is a Mac's SSH: one listener that starts an sshd for each connection, which
// makes what host keys are missing first, as launchd and Apple's wrapper do.
type port struct {
	w        *world
	listener net.Listener
	key      ssh.Signer
	all      sync.WaitGroup

	mu  sync.Mutex
	log bytes.Buffer
}

// openPort lets a new key in, by the file the vendor puts keys into.
func (w *world) openPort() *port {
	w.t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	w.must(err)
	p := &port{w: w}
	p.key, err = ssh.NewSignerFromKey(private)
	w.must(err)
	const keys = "/home/m1/.ssh/scw_authorized_keys"
	w.put(keys, string(ssh.MarshalAuthorizedKey(p.key.PublicKey())), 0o600)
	w.must(os.Chown(keys, uid, gid))
	p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	p.all.Go(p.accept)
	w.t.Cleanup(func() {
		_ = p.listener.Close()
		p.all.Wait()
		if w.t.Failed() {
			w.t.Logf("sshd says:\n%s", p.log.String())
		}
	})
	return p
}

func (p *port) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.serve(conn.(*net.TCPConn)) })
	}
}

func (p *port) serve(conn *net.TCPConn) {
	defer func() { _ = conn.Close() }()
	p.mu.Lock()
	err := makeHostKeys()
	p.mu.Unlock()
	socket, ferr := conn.File()
	if err = errors.Join(err, ferr); err != nil {
		p.w.t.Error(err)
		return
	}
	defer func() { _ = socket.Close() }()
	cmd := exec.Command("/usr/sbin/sshd", "-i", "-e", "-f", state+"/sshd_config")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = socket, socket, noted{p}
	// How a connection ends is the client's matter.
	_ = cmd.Run()
}

// noted keeps what sshd says.
type noted struct{ p *port }

func (n noted) Write(text []byte) (int, error) {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	return n.p.log.Write(text)
}

func makeHostKeys() error {
	for _, kind := range []string{"ecdsa", "ed25519", "rsa"} {
		path := "/etc/ssh/ssh_host_" + kind + "_key"
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := exec.Command("/usr/bin/ssh-keygen", "-q", "-t", kind, "-N", "", "-f", path).Run(); err != nil {
			return err
		}
	}
	return nil
}

func (p *port) target() remote.Target {
	at := p.listener.Addr().(*net.TCPAddr)
	return remote.Target{
		Address: at.IP.String(), Port: at.Port, User: "m1", Key: p.key,
		FirstUse: func(context.Context, remote.Pin) error { return nil },
	}
}

func (p *port) session() *remote.Session {
	p.w.t.Helper()
	session, err := remote.Dial(p.w.t.Context(), p.target())
	p.w.must(err)
	p.w.t.Cleanup(func() { _ = session.Close() })
	return session
}

// A locked account closes the door that needs no password, too.
func TestF03_LockedAccountRefusesTheKey(t *testing.T) {
	w := fresh(t, "/usr/bin/zsh")
	p := w.openPort()
	if err := p.session().Close(); err != nil {
		t.Fatal(err)
	}
	w.put(state+"/locked", "", 0o600)
	session, err := remote.Dial(t.Context(), p.target())
	if err == nil {
		_, err = session.Probe(t.Context())
		_ = session.Close()
	}
	var unreachable *remote.Unreachable
	if !errors.As(err, &unreachable) || unreachable.Phase != remote.PhaseAuth {
		t.Errorf("locked: got %T %v", err, err)
	}
	w.must(os.Remove(state + "/locked"))
	_ = p.session()
	if n := w.verifications(); n != 0 {
		t.Errorf("logging in by key cost %d verifications", n)
	}
}

func TestKeyThatWasNotPutInIsRefused(t *testing.T) {
	p := fresh(t, "/usr/bin/zsh").openPort()
	w := p.w
	w.must(os.Remove("/home/m1/.ssh/scw_authorized_keys"))
	var refused *remote.AuthRefused
	if _, err := remote.Dial(t.Context(), p.target()); !errors.As(err, &refused) {
		t.Errorf("got %T %v", err, err)
	}
}

// The keys come into being with the first connection, and ours is asked for by name.
func TestF12_ThreeHostKeysAreMadeAtTheFirstConnection(t *testing.T) {
	w := fresh(t, "/usr/bin/zsh")
	p := w.openPort()
	for _, path := range hostKeys(t) {
		w.must(errors.Join(os.Remove(path), os.Remove(path+".pub")))
	}
	first := p.session().HostKey()
	if keys := hostKeys(t); len(keys) != 3 {
		t.Errorf("after it there are %v", keys)
	}
	text, err := os.ReadFile("/etc/ssh/ssh_host_ed25519_key.pub")
	w.must(err)
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	w.must(err)
	want := remote.Pin{Algorithm: ssh.KeyAlgoED25519, SHA256: ssh.FingerprintSHA256(key)}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	pinned := p.target()
	pinned.Pin = first
	session, err := remote.Dial(t.Context(), pinned)
	if err != nil {
		t.Fatalf("the pin of the first connection: %v", err)
	}
	_ = session.Close()
	if left := p.preferred(); left == ssh.KeyAlgoED25519 {
		t.Error("a client that does not ask gets ed25519 too, so that asking proves nothing here")
	}
}

func hostKeys(t *testing.T) []string {
	t.Helper()
	keys, err := filepath.Glob("/etc/ssh/ssh_host_*_key")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// preferred is the algorithm of the key that a client gets which asks for none.
func (p *port) preferred() string {
	var kind string
	_, _ = ssh.Dial("tcp", p.listener.Addr().String(), &ssh.ClientConfig{
		User: "m1",
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			kind = key.Type()
			return errors.New("seen")
		},
	})
	return kind
}

// leaks looks for a text in all that the world keeps, but in the account itself.
func (w *world) leaks(text string) {
	w.t.Helper()
	for _, dir := range []string{"/etc/sudoers.d", "/home/m1", "/run", "/usr/local"} {
		w.must(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if bytes.Contains(data, []byte(text)) {
				w.t.Errorf("%s holds the password", path)
			}
			return err
		}))
	}
	entries, err := os.ReadDir("/etc")
	w.must(err)
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.Contains(e.Name(), "macfleet") }) {
		w.t.Error("something of ours is left in /etc")
	}
}
