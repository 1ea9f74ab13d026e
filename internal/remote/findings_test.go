package remote

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// otherHostKeys are the two that a Mac has beside its ed25519 key.
func otherHostKeys(t *testing.T) []ssh.Signer {
	t.Helper()
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	var all []ssh.Signer
	for _, key := range []any{curve, large} {
		signer, err := ssh.NewSignerFromKey(key)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, signer)
	}
	return all
}

// A Mac has three host keys. Which one is shown must be ours to say, or a pin that
// was taken of one is compared with another.
func TestF12_PinIsOfOneAlgorithm(t *testing.T) {
	key := newSigner(t)
	others := otherHostKeys(t)
	for name, order := range map[string]func(*ssh.ServerConfig, ssh.Signer){
		"ed25519 first": func(c *ssh.ServerConfig, own ssh.Signer) {
			c.AddHostKey(own)
			c.AddHostKey(others[0])
			c.AddHostKey(others[1])
		},
		"ed25519 last": func(c *ssh.ServerConfig, own ssh.Signer) {
			c.AddHostKey(others[0])
			c.AddHostKey(others[1])
			c.AddHostKey(own)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, key)
			order(s.config, s.hostKey)
			to := s.target(key)
			want := to.Pin
			to.Pin = Pin{}
			to.FirstUse = func(context.Context, Pin) error { return nil }
			for _, step := range []struct {
				name string
				pin  Pin
				want Pin
			}{
				{"at first use", Pin{}, want},
				{"pinned", want, want},
				{"pinned by another algorithm", pinOf(others[0]), pinOf(others[0])},
			} {
				to.Pin = step.pin
				session, err := s.reach(t.Context(), to)
				if err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				if got := session.HostKey(); got != step.want {
					t.Errorf("%s: shown %v, want %v", step.name, got, step.want)
				}
				_ = session.Close()
			}
			to.Pin = Pin{Algorithm: want.Algorithm, SHA256: pinOf(others[0]).SHA256}
			var mismatch *HostKeyMismatch
			if _, err := s.reach(t.Context(), to); !errors.As(err, &mismatch) || mismatch.Got != want {
				t.Errorf("the fingerprint of another algorithm's key: got %v", err)
			}
		})
	}
}

func pinOf(key ssh.Signer) Pin {
	return Pin{Algorithm: key.PublicKey().Type(), SHA256: ssh.FingerprintSHA256(key.PublicKey())}
}

// An impostor cannot pass our login on to the Mac; all it can have is what we hand
// it. So it records all it gets: with the wrong key that is nothing, and with leave
// for first use it is a login and a probe that carries nothing.
func TestF13_NothingSecretBeforeIdentity(t *testing.T) {
	key := newSigner(t)
	fake := newServer(t, key)
	logins := 0
	login := fake.config.PublicKeyCallback
	fake.config.PublicKeyCallback = func(c ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		logins++
		return login(c, k)
	}
	var got bytes.Buffer
	fake.handle = func(command string, c ssh.Channel) int {
		got.WriteString(command)
		_, _ = io.Copy(&got, c)
		_, _ = io.WriteString(c, "probe 1\narch x86_64\nend 1\n")
		return 0
	}
	to := fake.target(key)
	to.Pin.SHA256 = pinOf(newSigner(t)).SHA256
	if _, err := fake.reach(t.Context(), to); err == nil {
		t.Fatal("the impostor is reached")
	}
	if logins != 0 || got.Len() != 0 {
		t.Errorf("with the wrong key it saw %d logins and got %q", logins, got.String())
	}

	session := fake.dial(key)
	if _, err := session.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got.String() != shell(probeSnippet) {
		t.Errorf("before it said who it is it got %q", got.String())
	}
}

// A bare TCP connection says nothing of sshd and holds one of a Mac's few slots.
func TestF14_ReachingIsAHandshakeAndOneAtATime(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	var open, most, bare atomic.Int64
	ended := make(chan struct{}, 8)
	s.wrap = func(c net.Conn) net.Conn {
		most.Store(max(most.Load(), open.Add(1)))
		return &observed{Conn: c, closed: func(first []byte) {
			open.Add(-1)
			if !bytes.HasPrefix(first, []byte("SSH-2.0-")) {
				bare.Add(1)
			}
			ended <- struct{}{}
		}}
	}
	to := s.target(key)
	// Nothing listens at the first two: what is dialled next must wait for them.
	to.Addresses = []string{"127.0.0.3", to.Address, to.Address}
	to.Address = "127.0.0.2"
	for range 3 {
		session, err := s.reach(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		_ = session.Close()
		<-ended
	}
	to.Pin.SHA256 = "SHA256:other"
	var mismatch *HostKeyMismatch
	if _, err := s.reach(t.Context(), to); !errors.As(err, &mismatch) {
		t.Errorf("got %v", err)
	}
	_ = s.listener.Close()
	s.conns.Wait()
	if most.Load() != 1 || bare.Load() != 0 || open.Load() != 0 {
		t.Errorf("%d connections at once, %d without a handshake, %d left open", most.Load(), bare.Load(), open.Load())
	}
	if n := s.accepted.Load(); n != 4 {
		t.Errorf("%d connections for 4 attempts", n)
	}
}

// observed keeps the first bytes of a connection.
type observed struct {
	net.Conn
	first  []byte
	once   sync.Once
	closed func(first []byte)
}

func (o *observed) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	if len(o.first) < 16 {
		o.first = append(o.first, p[:n]...)
	}
	return n, err
}

func (o *observed) Close() error {
	err := o.Conn.Close()
	o.once.Do(func() { o.closed(o.first) })
	return err
}

func TestUnreachableNamesEveryAddress(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	to := s.target(key)
	_ = s.listener.Close()
	to.Address, to.Addresses = "127.0.0.2", []string{"127.0.0.3"}
	_, err := Dial(t.Context(), to)
	var unreachable *Unreachable
	if !errors.As(err, &unreachable) || unreachable.Phase != PhaseDial {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"127.0.0.2", "127.0.0.3"} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q does not name %s in one line", err, want)
		}
	}
}

// What a round trip costs must not be multiplied by the size of an upload: a
// megabyte is under way before the other side has said a word.
func TestF15_UploadIsPipelined(t *testing.T) {
	const ahead = 1 << 20
	key := newSigner(t)
	s := newServer(t, key)
	build := testBuild(t, 3<<20)
	g := &gate{ahead: ahead, opened: make(chan struct{})}
	s.wrap = func(c net.Conn) net.Conn { return &gated{Conn: c, gate: g} }
	s.handle = func(_ string, c ssh.Channel) int {
		head := make([]byte, len(build.header()))
		if _, err := io.ReadFull(c, head); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(c, "have 0\n")
		g.shut.Store(true)
		if n, err := io.Copy(io.Discard, c); n != build.PackedSize() {
			t.Errorf("%d bytes arrived: %v", n, err)
		}
		_, _ = io.WriteString(c, "receive staged\n")
		return 0
	}
	session := s.dial(key)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := session.Receive(ctx, build); err != nil {
		t.Errorf("with nothing said by the other side until %d bytes came: %v", ahead, err)
	}
}

// gate holds back what the server says until it has heard enough.
type gate struct {
	ahead  int64
	shut   atomic.Bool
	heard  atomic.Int64
	opened chan struct{}
	once   sync.Once
}

type gated struct {
	net.Conn
	gate *gate
}

func (g *gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if g.gate.heard.Add(int64(n)) >= g.gate.ahead || err != nil {
		g.gate.once.Do(func() { close(g.gate.opened) })
	}
	return n, err
}

func (g *gated) Write(p []byte) (int, error) {
	if g.gate.shut.Load() {
		<-g.gate.opened
	}
	return g.Conn.Write(p)
}

// A fresh Mac is four executions. Each may wait for the other side a few times: to
// open the channel, to start the command, to hear what came of it.
func TestF15_RoundTripsOfAFreshMac(t *testing.T) {
	// 2.2 round trips an execution were measured; the upload asks what is there.
	const executions, most = 4, 4*4 + 2
	key := newSigner(t)
	s := newServer(t, key)
	build := testBuild(t, 10_000)
	d := testDesired()
	d.Agent.SHA256 = build.SHA256
	var turns atomic.Int64
	s.wrap = func(c net.Conn) net.Conn { return &turning{Conn: c, turns: &turns} }
	s.handle = func(command string, c ssh.Channel) int {
		switch {
		case strings.Contains(command, "probe 1"):
			return answering("probe 1\nend 1\n", "", 0)(command, c)
		case strings.Contains(command, "macfleet-grant"):
			return answering("grant granted\n", "", 0)(command, c)
		case strings.Contains(command, "/bin/sh"):
			_, _ = io.ReadFull(c, make([]byte, len(build.header())))
			_, _ = io.WriteString(c, "have 0\n")
			return answering("receive staged\n", "", 0)(command, c)
		}
		return answering(report(t, document.VerbConverge, document.ExitChanged), "", document.ExitChanged)(command, c)
	}
	session := s.dial(key)
	before := turns.Load()
	_, perr := session.Probe(t.Context())
	gerr := session.Grant(t.Context(), secret("x"))
	_, rerr := session.Receive(t.Context(), build)
	_, cerr := session.Converge(t.Context(), build.SHA256, d, testSigner())
	if err := errors.Join(perr, gerr, rerr, cerr); err != nil {
		t.Fatal(err)
	}
	if n := len(s.seen()); n != executions {
		t.Errorf("%d executions", n)
	}
	if n := turns.Load() - before; n > most {
		t.Errorf("%d round trips, at most %d are due", n, most)
	}
}

// turning counts how often the server hears something after it has spoken.
type turning struct {
	net.Conn
	turns *atomic.Int64
	spoke atomic.Bool
}

func (c *turning) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.spoke.Swap(false) {
		c.turns.Add(1)
	}
	return n, err
}

func (c *turning) Write(p []byte) (int, error) {
	c.spoke.Store(true)
	return c.Conn.Write(p)
}

// A connection may end after any byte; the next attempt sends what is missing.
func TestUploadCutAfterAnyByteIsResumed(t *testing.T) {
	build := testBuild(t, 2_000)
	head, all := len(build.header()), len(build.header())+int(build.PackedSize())
	offsets := []int{0, 1, head - 1, head, head + 1, head + 2, all - 2, all - 1, all}
	for at := head + 50; at < all; at += 400 {
		offsets = append(offsets, at)
	}
	slices.Sort(offsets)
	b := newBox(t, []string{where(t, "sh")})
	key := newSigner(t)
	s := newServer(t, key)
	shelled := running(b.boxed, b.env()...)
	for _, at := range offsets {
		b.remove("home/.macfleet")
		s.handle = func(command string, c ssh.Channel) int {
			shelled(command, &cutChannel{Channel: c, left: at})
			return -1
		}
		if _, err := s.dial(key).Receive(t.Context(), build); err == nil {
			t.Errorf("cut after %d: no error", at)
		}
		s.execs.Wait()
		s.handle = shelled
		sent, err := s.dial(key).Receive(t.Context(), build)
		if want := max(0, all-max(at, head)); err != nil || sent != int64(want) {
			t.Errorf("cut after %d: then %d bytes travelled, want %d (%v)", at, sent, want, err)
		}
		b.holds(build)
	}
}

// cutChannel ends after so many bytes, and what is said to it is lost from then.
type cutChannel struct {
	ssh.Channel
	left int
}

func (c *cutChannel) Read(p []byte) (int, error) {
	if c.left == 0 {
		_ = c.Close()
		return 0, io.EOF
	}
	n, err := c.Channel.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
