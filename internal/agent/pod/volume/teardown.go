package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/filetree"
)

// gonePrefix marks directories of Pods that are being removed.
const gonePrefix = ".gone-"

// TearDown removes everything of a Pod, also of one that nobody knows any more. It
// may be repeated.
func (s *Store) TearDown(uid types.UID) error {
	if !uidPattern.MatchString(string(uid)) {
		return fmt.Errorf("the UID %q names no volumes", uid)
	}
	var errs []error
	for _, root := range s.roots() {
		errs = append(errs, s.remove(root, string(uid)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing the volumes of Pod %s: %w", uid, err)
	}
	return nil
}

// remove takes the directory away from the Pod at once, and then takes its time.
func (s *Store) remove(root, uid string) error {
	gone := filepath.Join(root, gonePrefix+uid)
	if err := filetree.Remove(gone); err != nil {
		return err
	}
	s.writing.Lock()
	err := os.Rename(filepath.Join(root, uid), gone)
	s.writing.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return filetree.Remove(gone)
}

// roots are where Pods have directories. The RAM disk is not made for this.
func (s *Store) roots() []string {
	roots := []string{s.o.Dir}
	if there, ok := s.o.Secrets.Made(); ok {
		roots = append(roots, there)
	}
	return roots
}
