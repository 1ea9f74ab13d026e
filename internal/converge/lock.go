package converge

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/macfleet/macfleet/internal/atomicfile"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/session"
)

const (
	// lockFile is held by a run of converge.
	lockFile = document.StateDir + "/lock"
	// lockWait is how long a run waits for one before it: a run whose connection
	// was lost ends soon, a longer one is left alone.
	lockWait = 10 * time.Second
)

// removeStagedFiles removes what a writer left in our folders that was cut off between
// writing a new file and moving it to its place: nobody may ever write that file
// again. A file that hostd writes, too, is left alone while its lock is held.
func removeStagedFiles(mac macos.Mac) error {
	guards := map[string]string{atomicfile.Temp(session.File): session.Lock, atomicfile.Temp(firewall.File): firewall.Lock}
	for _, dir := range []string{document.StateDir, document.ConfigDir, document.InstallDir} {
		names, err := mac.Files.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("listing %s: %w", dir, err)
		}
		for _, name := range names {
			if at := path.Join(dir, name); atomicfile.IsTemp(at) {
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
