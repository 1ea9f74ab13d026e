package world

import (
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/macfleet/macfleet/sandbox/buildcache"
)

// folders are what the programs lie in: entries of the cache, or a release's folders.
func (b Binaries) folders() []string {
	return []string{filepath.Dir(b.Manager), filepath.Dir(b.Cluster.ControlPlane)}
}

// holdings are those folders, held.
type holdings []*buildcache.Held

// hold keeps other sandboxes, which build other programs, from removing these. Where files
// cannot be locked nothing is removed either, so that it goes on.
func (b Binaries) hold(log *slog.Logger) holdings {
	var all holdings
	for _, folder := range b.folders() {
		held, err := buildcache.Hold(folder)
		if err != nil {
			log.Warn("programs are not held in the cache", "folder", folder, "error", err)
			continue
		}
		all = append(all, held)
	}
	return all
}

func (h holdings) release() error {
	var errs []error
	for _, held := range h {
		errs = append(errs, held.Close())
	}
	return errors.Join(errs...)
}
