package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// healthTimeout bounds one answer: a client that does not read is hung up on.
const healthTimeout = 10 * time.Second

// acceptPause is how long the socket is left alone after a connection could not be taken.
const acceptPause = 100 * time.Millisecond

// listenHealth opens the local socket. A socket left by an earlier agent is
// replaced: launchd runs one agent at a time.
func listenHealth(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of the health socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing an old health socket: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the health socket: %w", err)
	}
	return l, nil
}

// serveHealth answers every connection with one JSON document until ctx ends.
func serveHealth(ctx context.Context, l net.Listener, h document.Health, log *slog.Logger) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for told := false; ; {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			if ctx.Err() == nil {
				log.Error("the health socket is closed", "err", err)
			}
			return
		}
		if err != nil {
			// Too many open files, or a caller that hung up: neither lasts.
			if !told {
				log.Warn("a connection to the health socket was not taken", "err", err)
			}
			told = true
			time.Sleep(acceptPause)
			continue
		}
		told = false
		if err := answer(c, h); err != nil {
			log.Debug("a health answer was not taken", "err", err)
		}
	}
}

func answer(c net.Conn, h document.Health) error {
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(healthTimeout)); err != nil {
		return err
	}
	return json.NewEncoder(c).Encode(h)
}
