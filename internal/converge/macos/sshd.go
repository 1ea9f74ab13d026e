package macos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

// OpenSSH is the SSH server of this Mac. launchd owns its port and starts one
// sshd a connection, so a changed file holds for the next connection and nothing
// needs a restart.
type OpenSSH struct{}

var _ SSHD = OpenSSH{}

const (
	sshdCommand = "/usr/sbin/sshd"
	sshdLabel   = "com.openssh.sshd"
	sshPort     = 22
	// bannerTimeout bounds the start of one sshd on a busy Mac.
	bannerTimeout = 10 * time.Second
	// maxBanner bounds what is read for a banner; RFC 4253 allows lines before it.
	maxBanner = 4 << 10
)

// Check implements SSHD.
func (OpenSSH) Check(ctx context.Context, file string) error {
	_, err := run(ctx, sshdCommand, "-t", "-f", file)
	return err
}

// Effective implements SSHD.
func (OpenSSH) Effective(ctx context.Context) (map[string]string, error) {
	out, err := run(ctx, sshdCommand, "-T")
	if err != nil {
		return nil, err
	}
	return ParseSSHD(out), nil
}

// ParseSSHD reads what sshd -T says: a keyword and its value a line. The values of
// a keyword that is repeated are joined with a space.
func ParseSSHD(text string) map[string]string {
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
func (s OpenSSH) Answers(ctx context.Context) error {
	settings, err := s.Effective(ctx)
	if err != nil {
		settings = nil // the usual place, then
	}
	return readBanner(ctx, listenAddress(settings))
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

// readBanner reads the line that names the protocol. A connection that launchd
// accepted and nobody serves says nothing.
func readBanner(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, bannerTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("the SSH server does not answer: %w", err)
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
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

// Reload implements SSHD.
func (OpenSSH) Reload(ctx context.Context) error {
	return Launchctl{}.Kickstart(ctx, sshdLabel, true)
}
