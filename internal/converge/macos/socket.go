package macos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
)

// Listen opens a Unix socket at path, for who attr says. A socket left by an
// earlier process is replaced; the caller sees to it that there is none that still
// answers.
func Listen(ctx context.Context, path string, attr Attr) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing an old socket: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the socket: %w", err)
	}
	if err := setAttr(ctx, path, attr); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// UserID is the number of a user.
func UserID(ctx context.Context, user string) (int, error) {
	out, err := run(ctx, idCommand, "-u", user)
	if err != nil {
		return 0, fmt.Errorf("looking for user %s: %w", user, err)
	}
	uid, err := strconv.ParseUint(strings.TrimSpace(out), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("looking for user %s: id says %q", user, firstLine(out))
	}
	return int(uid), nil
}

// PeerUID is the user at the other end of a Unix socket, as the kernel knows it.
func PeerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("reading who is at the other end: %w", err)
	}
	uid, inner := 0, error(nil)
	if err := raw.Control(func(fd uintptr) { uid, inner = peerUID(int(fd)) }); err != nil {
		return 0, fmt.Errorf("reading who is at the other end: %w", err)
	}
	if inner != nil {
		return 0, fmt.Errorf("reading who is at the other end: %w", inner)
	}
	return uid, nil
}
