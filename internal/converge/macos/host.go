package macos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// scutil reads and sets names with the command of that name.
type scutil struct{}

var _ Names = scutil{}

const (
	scutilCommand = "/usr/sbin/scutil"
	sysctlCommand = "/usr/sbin/sysctl"
)

// Get implements Names.
func (scutil) Get(ctx context.Context, name Name) (string, error) {
	out, err := run(ctx, scutilCommand, "--get", string(name))
	var failed *commandError
	if errors.As(err, &failed) && failed.Code == 1 {
		// scutil says "not set" with exit 1 and has no other way to say it.
		return "", nil
	}
	return strings.TrimSpace(out), err
}

// Set implements Names.
func (scutil) Set(ctx context.Context, name Name, value string) error {
	_, err := run(ctx, scutilCommand, "--set", string(name), value)
	return err
}

// sysctl reads facts of this Mac.
type sysctl struct{}

var _ Host = sysctl{}

// BootSession implements Host.
func (sysctl) BootSession(ctx context.Context) (string, error) {
	out, err := run(ctx, sysctlCommand, "-n", "kern.bootsessionuuid")
	return strings.TrimSpace(out), err
}

// UnixSockets asks servers on this Mac.
type UnixSockets struct{}

var _ Sockets = UnixSockets{}

// Ask implements Sockets.
func (UnixSockets) Ask(ctx context.Context, path string, request []byte) ([]byte, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	// Who speaks first may have hung up already.
	if len(request) > 0 {
		if _, err := conn.Write(request); err != nil {
			return nil, fmt.Errorf("writing to %s: %w", path, err)
		}
	}
	data, err := io.ReadAll(io.LimitReader(conn, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading from %s: %w", path, err)
	}
	return data, nil
}

// WallClock is the time of day.
type WallClock struct{}

var _ Clock = WallClock{}

// Now implements Clock.
func (WallClock) Now() time.Time { return time.Now() }

// Sleep implements Clock.
func (WallClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
