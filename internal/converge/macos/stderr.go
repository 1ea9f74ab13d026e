package macos

import (
	"context"
	"os"
	"time"
)

// StderrIs reports whether this process writes its errors to the file at path.
func StderrIs(path string) bool { return isFile(os.Stderr, path) }

func isFile(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(open, named)
}

// FollowStderr looks every so often whether the file at path is still the one that
// this process writes its errors to, and otherwise goes on in the new one. It
// returns with the context.
func FollowStderr(ctx context.Context, clock Clock, path string, every time.Duration) {
	for clock.Sleep(ctx, every) == nil {
		reopen(os.Stderr, path)
	}
}

// reopen has f write to the file at path. What cannot be opened, and a path that
// nobody has made anew yet, leave f as it is.
func reopen(f *os.File, path string) {
	if isFile(f, path) {
		return
	}
	// Without O_CREATE: a file of newsyslog's has the right owner and mode, and a
	// link that somebody put there must not make another.
	fresh, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|noFollow, 0)
	if err != nil {
		return
	}
	defer func() { _ = fresh.Close() }()
	if info, err := fresh.Stat(); err == nil && info.Mode().IsRegular() {
		_ = replaceFD(int(fresh.Fd()), int(f.Fd()))
	}
}
