package macos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// openSSH is the SSH server of this Mac. launchd owns its port and starts one
// sshd a connection, so a changed file holds for the next connection and nothing
// needs a restart.
type openSSH struct{}

var _ SSHD = openSSH{}

const (
	sshdCommand = "/usr/sbin/sshd"
	sshPort     = 22
	// bannerTimeout bounds the start of one sshd on a busy Mac.
	bannerTimeout = 10 * time.Second
	// maxBanner bounds what is read for a banner; RFC 4253 allows lines before it.
	maxBanner = 4 << 10
)

// Check implements SSHD.
func (openSSH) Check(ctx context.Context, file string) error {
	_, err := run(ctx, sshdCommand, "-t", "-f", file)
	return err
}

// Effective implements SSHD.
func (openSSH) Effective(ctx context.Context) (map[string]string, error) {
	out, err := run(ctx, sshdCommand, "-T")
	if err != nil {
		return nil, err
	}
	return parseSSHD(out), nil
}

// parseSSHD reads what sshd -T says: a keyword and its value a line. The values of
// a keyword that is repeated are joined with a space.
func parseSSHD(text string) map[string]string {
	settings := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		key, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found {
			continue
		}
		key, value = strings.ToLower(key), strings.TrimSpace(value)
		if before := settings[key]; before != "" {
			value = before + " " + value
		}
		settings[key] = value
	}
	return settings
}

// Answers implements SSHD. It asks where sshd itself says that it listens.
func (s openSSH) Answers(ctx context.Context) error {
	return readBanner(ctx, s.address(ctx))
}

func (s openSSH) address(ctx context.Context) string {
	settings, err := s.Effective(ctx)
	if err != nil {
		settings = nil // the usual place, then
	}
	return listenAddress(settings)
}

// Accepts implements SSHD.
func (s openSSH) Accepts(ctx context.Context, user, key string) error {
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key))
	if err != nil {
		return fmt.Errorf("the key to ask the SSH server about: %w", err)
	}
	return offer(ctx, s.address(ctx), user, public)
}

// offer asks whether a key would log in, as clients do before they sign: without
// the private half. That the server asks for the signature is its yes.
func offer(ctx context.Context, address, user string, key ssh.PublicKey) error {
	ctx, cancel := context.WithTimeout(ctx, bannerTimeout)
	defer cancel()
	conn, err := dialServer(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	asked := &unsigned{key: key}
	client, _, _, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(asked)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), // it is this Mac's own server, and nothing is signed
	})
	switch {
	case err == nil: // nobody asked for a signature
		_ = client.Close()
		return fmt.Errorf("the SSH server lets %s in without a key", user)
	case asked.wanted:
		return nil
	}
	return fmt.Errorf("the SSH server does not take the key %s for %s: %w", ssh.FingerprintSHA256(key), user, err)
}

// unsigned is a key whose private half is elsewhere.
type unsigned struct {
	key    ssh.PublicKey
	wanted bool
}

var errElsewhere = errors.New("the private half is not on this Mac")

// PublicKey implements ssh.Signer.
func (u *unsigned) PublicKey() ssh.PublicKey { return u.key }

// Sign implements ssh.Signer.
func (u *unsigned) Sign(io.Reader, []byte) (*ssh.Signature, error) {
	u.wanted = true
	return nil, errElsewhere
}

// SignWithAlgorithm implements ssh.AlgorithmSigner, which RSA keys need.
func (u *unsigned) SignWithAlgorithm(r io.Reader, data []byte, _ string) (*ssh.Signature, error) {
	return u.Sign(r, data)
}

// listenAddress is where this Mac reaches its own SSH server: at the first address
// that the settings name, on the loopback where that stands for all, and at the
// usual port where they name none.
func listenAddress(settings map[string]string) string {
	local := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), sshPort)
	for text := range strings.FieldsSeq(settings["listenaddress"]) {
		at, err := netip.ParseAddrPort(text)
		switch {
		case err != nil || at.Port() == 0:
			continue
		case at.Addr().IsUnspecified():
			return netip.AddrPortFrom(local.Addr(), at.Port()).String()
		}
		return at.String()
	}
	return local.String()
}

// dialServer connects to this Mac's own SSH server, for as long as ctx lasts.
func dialServer(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the SSH server does not answer: %w", err)
	}
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// readBanner reads the line that names the protocol. A connection that launchd
// accepted and nobody serves says nothing.
func readBanner(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, bannerTimeout)
	defer cancel()
	conn, err := dialServer(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	lines := bufio.NewScanner(io.LimitReader(conn, maxBanner))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "SSH-2.0-") {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the SSH server at %s says nothing: %w", address, err)
	}
	return fmt.Errorf("what listens at %s is no SSH server", address)
}
