package hostos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// socketPathLimit is the longest path that a socket address holds on macOS: 104
// bytes with the closing zero. Linux has four more.
const socketPathLimit = 103

// socketBuffer is how much a socket takes before its reader comes, in bytes, as far as the
// system allows: a Mac's take 8 KiB by themselves, and a stream's piece would have to wait
// for its reader four times.
const socketBuffer = 128 << 10

// ListenUnix listens on a socket at path, however long that is. Closing the listener
// removes the socket. One that is there already is an error.
func ListenUnix(path string) (net.Listener, error) {
	l, err := throughShortPath(path, func(short string) (net.Listener, error) {
		return net.Listen("unix", short)
	})
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	// The listener knows the short path only, which leads nowhere by now.
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	return &socketListener{Listener: l, path: path}, nil
}

// DialUnix connects to the socket at path, however long that is.
func DialUnix(ctx context.Context, path string) (net.Conn, error) {
	conn, err := throughShortPath(path, func(short string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", short)
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", path, err)
	}
	return widened(conn), nil
}

// widened gives a connection room. One without has less, and works.
func widened(conn net.Conn) net.Conn {
	if u, ok := conn.(*net.UnixConn); ok {
		_, _ = u.SetWriteBuffer(socketBuffer), u.SetReadBuffer(socketBuffer)
	}
	return conn
}

// throughShortPath calls use with a path to the same file that fits into a socket
// address: through a link to its directory, which is needed for this call only.
func throughShortPath[T any](path string, use func(string) (T, error)) (T, error) {
	if len(path) <= socketPathLimit {
		return use(path)
	}
	var none T
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return none, err
	}
	// Not os.TempDir: it may be long itself.
	short, err := os.MkdirTemp("/tmp", "macfleet-s")
	if err != nil {
		return none, fmt.Errorf("making a short path: %w", err)
	}
	defer func() { _ = os.RemoveAll(short) }()
	link := filepath.Join(short, "d")
	if err := os.Symlink(dir, link); err != nil {
		return none, fmt.Errorf("making a short path: %w", err)
	}
	return use(filepath.Join(link, filepath.Base(path)))
}

// socketListener removes its socket once.
type socketListener struct {
	net.Listener
	path string
	once sync.Once
}

// Accept waits for the next connection.
func (l *socketListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return widened(conn), err
}

func (l *socketListener) Close() error {
	var err error
	l.once.Do(func() { err = os.Remove(l.path) })
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.Listener.Close())
}
