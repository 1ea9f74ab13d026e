// Package remote reaches Macs over SSH: it dials with a pinned host key, runs
// three small fixed shell snippets (what is this Mac, become root, take a build)
// and then the agent itself, whose documents and reports are package document's.
//
// Commands are constants; everything variable travels on standard input. What
// comes back is bounded, and no text from the other side becomes part of an
// error, since sudo may echo what it finds in its configuration. When to reach
// which Mac, where pins and attempts are recorded, and what to do about a
// failure is the callers'.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// dialTimeout bounds the TCP connection.
	dialTimeout = 10 * time.Second
	// handshakeTimeout bounds SSH's handshake up to the host key. A Mac generates
	// its host keys on its first connection, which takes seconds.
	handshakeTimeout = 30 * time.Second
	// authTimeout bounds the login after it: the account stage of a Mac asks its
	// directory, which is slow on one that has just booted.
	authTimeout = 30 * time.Second
)

// DefaultAlgorithm is the host key asked for where none is pinned. A Mac has
// several, and which one a client gets by default differs between clients.
const DefaultAlgorithm = ssh.KeyAlgoED25519

// Pin is a host key: the algorithm as SSH names it, and the fingerprint as
// OpenSSH prints it, SHA256:<base64>. The zero Pin is none.
type Pin struct {
	Algorithm string
	SHA256    string
}

func (p Pin) String() string { return p.Algorithm + " " + p.SHA256 }

// Target is a Mac to reach.
type Target struct {
	// Address is a host name or an IP address.
	Address string
	// Addresses are others that the Mac is known by, of the same sshd. Each is tried
	// in its turn when those before it give no connection; a host that answers and
	// is refused, or refuses us, ends the attempt.
	Addresses []string
	// Port is 22 when zero.
	Port int
	User string
	Key  ssh.Signer
	// OtherKeys are offered after Key, in order: those that the Mac may still know.
	OtherKeys []ssh.Signer
	// Pin is the host key that must be shown.
	Pin Pin
	// FirstUse is asked about the host key where there is no Pin, before anything
	// else happens on the connection. Record the pin durably in it; an error
	// refuses the key. Without Pin and FirstUse nothing is dialled.
	FirstUse func(ctx context.Context, shown Pin) error
}

func (t Target) hostPort(address string) string {
	return net.JoinHostPort(address, strconv.Itoa(cmp.Or(t.Port, 22)))
}

func (t Target) algorithm() string {
	return cmp.Or(t.Pin.Algorithm, DefaultAlgorithm)
}

// Dial reaches a Mac and logs in. The session ends with Close or with ctx.
// Errors are *Unreachable, *AuthRefused, *HostKeyMismatch, ErrNotPinned, or what
// FirstUse returned.
func Dial(ctx context.Context, t Target) (*Session, error) {
	if t.Pin == (Pin{}) && t.FirstUse == nil {
		return nil, ErrNotPinned
	}
	conn, err := connect(ctx, t)
	if err != nil {
		return nil, &Unreachable{Phase: PhaseDial, Err: err}
	}
	// Closing the connection is what interrupts everything below.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	client, pin, err := login(ctx, conn, t)
	if err != nil {
		stop()
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil, &Unreachable{Phase: PhaseHandshake, Err: ctx.Err()}
		}
		return nil, err
	}
	return newSession(client, pin, stop), nil
}

// connect goes through the addresses one after the other: a Mac has few slots for
// connections, and each that is opened takes one.
func connect(ctx context.Context, t Target) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	var failed error
	for _, address := range append([]string{t.Address}, t.Addresses...) {
		conn, err := dialer.DialContext(ctx, "tcp", t.hostPort(address))
		if err == nil {
			return conn, nil
		}
		if failed != nil {
			err = fmt.Errorf("%w; %w", failed, err)
		}
		failed = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// login does the handshake and authenticates.
func login(ctx context.Context, conn net.Conn, t Target) (*ssh.Client, Pin, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, Pin{}, &Unreachable{Phase: PhaseHandshake, Err: err}
	}
	keys := &hostKeys{ctx: ctx, target: t, conn: conn}
	c, channels, requests, err := ssh.NewClientConn(conn, conn.RemoteAddr().String(), &ssh.ClientConfig{
		User:              t.User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(append([]ssh.Signer{t.Key}, t.OtherKeys...)...)},
		HostKeyAlgorithms: []string{t.algorithm()},
		HostKeyCallback:   keys.check,
	})
	if err != nil {
		return nil, Pin{}, keys.explain(err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, Pin{}, errors.Join(&Unreachable{Phase: PhaseSession, Err: err}, c.Close())
	}
	return ssh.NewClient(c, channels, requests), keys.shown, nil
}

// hostKeys judges the host key that is shown, and remembers how it went.
type hostKeys struct {
	// ctx is that of the one Dial this value lives in; the callback has no other
	// way to it.
	ctx      context.Context
	target   Target
	conn     net.Conn
	shown    Pin
	accepted bool
	refusal  error
}

func (k *hostKeys) check(_ string, _ net.Addr, key ssh.PublicKey) error {
	k.shown = Pin{Algorithm: key.Type(), SHA256: ssh.FingerprintSHA256(key)}
	switch {
	case k.target.Pin == (Pin{}):
		if err := k.target.FirstUse(k.ctx, k.shown); err != nil {
			k.refusal = fmt.Errorf("accepting a host key at first use: %w", err)
		}
	case k.shown != k.target.Pin:
		k.refusal = &HostKeyMismatch{Want: k.target.Pin, Got: k.shown}
	}
	k.accepted = k.refusal == nil
	if k.accepted {
		return k.conn.SetDeadline(time.Now().Add(authTimeout))
	}
	return k.refusal
}

// explain names the phase in which the login failed.
func (k *hostKeys) explain(err error) error {
	var algorithms *ssh.AlgorithmNegotiationError
	switch {
	case k.refusal != nil:
		return k.refusal
	case errors.As(err, &algorithms) && k.target.Pin != (Pin{}) && !k.accepted:
		return &HostKeyMismatch{Want: k.target.Pin}
	case !k.accepted:
		return &Unreachable{Phase: PhaseHandshake, Err: err}
	case isNetwork(err):
		return &Unreachable{Phase: PhaseAuth, Err: err}
	}
	return &AuthRefused{User: k.target.User}
}

// isNetwork reports whether the connection, and not the peer's word, ended it.
func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

// Pause waits between two looks at a Mac, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
