package converge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	// lockFile is held by a run of converge.
	lockFile = document.StateDir + "/lock"
	// lockWait is how long a run waits for one before it: a run whose connection
	// was lost ends soon, a longer one is left alone.
	lockWait = 10 * time.Second
	// firewallLock is held by an arming. Its wait covers a whole one with all its tries.
	firewallLock     = document.StateDir + "/firewall.lock"
	firewallLockWait = 15 * time.Second
	// sessionLock is held by who restarts loginwindow, or changes what is known of it.
	sessionLock     = document.StateDir + "/session.lock"
	sessionLockWait = time.Minute

	lockProbe = 100 * time.Millisecond
)

// lock waits for the lock at name, for so long. It is macos.ErrLocked that another
// process holds it still. Converge and hostd work side by side: what both change has
// a lock of its own.
func lock(ctx context.Context, mac macos.Mac, name string, wait time.Duration) (io.Closer, error) {
	deadline := mac.Clock.Now().Add(wait)
	for {
		unlock, err := mac.Files.Lock(name)
		if !errors.Is(err, macos.ErrLocked) || !mac.Clock.Now().Before(deadline) {
			return unlock, err
		}
		if err := mac.Clock.Sleep(ctx, lockProbe); err != nil {
			return nil, err
		}
	}
}

// removeCut removes what a writer left in our folders that was cut off between
// writing a new file and moving it to its place: nobody may ever write that file
// again. A file that hostd writes, too, is left alone while its lock is held.
func removeCut(mac macos.Mac) error {
	guards := map[string]string{macos.Staged(sessionFile): sessionLock, macos.Staged(recordFile): firewallLock}
	for _, dir := range []string{document.StateDir, document.ConfigDir, document.InstallDir} {
		names, err := mac.Files.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("listing %s: %w", dir, err)
		}
		for _, name := range names {
			if at := path.Join(dir, name); macos.IsStaged(at) {
				if err := removeStaged(mac.Files, at, guards[at]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func removeStaged(files macos.Files, name, guard string) error {
	if guard != "" {
		unlock, err := files.Lock(guard)
		if errors.Is(err, macos.ErrLocked) {
			return nil // its writer is at work
		}
		if err != nil {
			return fmt.Errorf("locking %s: %w", guard, err)
		}
		defer func() { _ = unlock.Close() }()
	}
	return files.Remove(name)
}
