package tart

import (
	"context"
	"crypto/md5" // tart names its directory so; nothing is protected by it
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leftoverTime is how long nothing may have been written to a leftover.
	leftoverTime = 30 * time.Minute
	// leftoverPoll is how often to look whether a pull has come to where it needs one.
	leftoverPoll = 20 * time.Millisecond
)

// leftoverPattern is what tart calls the directory of a pull.
var leftoverPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

// leftoverName is that of the image's directory; tart makes it from the whole name.
func leftoverName(ref string) string {
	if m := referencePattern.FindStringSubmatch(ref); m != nil && m[3]+m[4] == "" {
		ref += ":latest"
	}
	return fmt.Sprintf("%x", md5.Sum([]byte(ref)))
}

// leftovers are what pulls that ended early left in TART_HOME/tmp, for the next pull of the
// same name. Any command of tart but pull and clone removes what nobody has locked there;
// so they are locked here. Not for long: they take room.
type leftovers struct {
	dir string

	mu    sync.Mutex
	locks map[string]*os.File
	// pulling are those that a pull of ours has, or is about to lock.
	pulling map[string]bool
}

func newLeftovers(home string) *leftovers {
	return &leftovers{dir: filepath.Join(home, "tmp"), locks: map[string]*os.File{}, pulling: map[string]bool{}}
}

// keep locks what nobody has, also what an earlier process of ours saw a pull leave, and
// removes what is too old.
func (l *leftovers) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh()
}

func (l *leftovers) refresh() {
	entries, _ := os.ReadDir(l.dir) // that cannot be read: there is nothing to keep
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || !leftoverPattern.MatchString(name) || l.pulling[name] || l.locks[name] != nil {
			continue
		}
		if lock, _ := tryLock(filepath.Join(l.dir, name)); lock != nil {
			l.locks[name] = lock
		}
	}
	for name := range l.locks {
		if time.Since(lastWritten(filepath.Join(l.dir, name))) > leftoverTime {
			l.removeLocked(name)
		}
	}
}

// take gives what is left for a pull to that pull: the lock, or nil.
func (l *leftovers) take(name string) *os.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh()
	lock := l.locks[name]
	delete(l.locks, name)
	l.pulling[name] = true
	return lock
}

// takeBack keeps what a pull has left.
func (l *leftovers) takeBack(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pulling, name)
	l.refresh()
}

// remove removes what nobody has of a pull, also where an earlier process of ours began it.
func (l *leftovers) remove(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh()
	l.removeLocked(name)
}

func (l *leftovers) removeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.locks {
		l.removeLocked(name)
	}
}

// removeLocked removes a leftover, unless another directory is in its place by now. What
// cannot be removed tart tries again.
func (l *leftovers) removeLocked(name string) {
	lock := l.locks[name]
	if lock == nil {
		return
	}
	delete(l.locks, name)
	path := filepath.Join(l.dir, name)
	locked, err := lock.Stat()
	there, missing := os.Lstat(path)
	if err == nil && missing == nil && os.SameFile(locked, there) {
		_ = os.RemoveAll(path)
	}
	_ = lock.Close()
}

// releaseFor gives up the lock of a leftover once the pull needs it: tart asks the registry,
// then locks the registry's directory, and waits for this lock next. Without it any other
// command would remove the leftover while the registry is asked.
func releaseFor(ctx context.Context, lock *os.File, registry string) {
	defer func() { _ = lock.Close() }()
	for ctx.Err() == nil {
		free, taken := tryLock(registry)
		if taken {
			return
		}
		if free != nil {
			_ = free.Close()
		}
		pause(ctx, leftoverPoll)
	}
}

// tryLock takes tart's kind of lock; closing the file gives it up. Nil: it is taken, or
// there is nothing to lock.
func tryLock(path string) (lock *os.File, taken bool) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, errors.Is(err, unix.EWOULDBLOCK)
	}
	return f, false
}

// lastWritten is when a file of the directory was last written, long ago when there is none.
func lastWritten(dir string) time.Time {
	var last time.Time
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}
