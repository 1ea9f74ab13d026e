package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/filetree"
)

const (
	// reportFile is where a guest without a command writes its exit code.
	reportFile = "exit-code"
	// mostReport bytes make a report: more is none.
	mostReport = 16
	// mostCode is the greatest exit code of a process.
	mostCode = 255
)

// ExitReport is the exit code that the guest of a Pod left in its writable share.
// Anything but a number from 0 to 255 in a regular file counts as none.
func (s *Store) ExitReport(uid types.UID) (code int32, found bool) {
	root, err := os.OpenRoot(s.reportDir(uid))
	if err != nil {
		return 0, false
	}
	defer root.Close()
	// A pipe must not hold us up.
	f, err := root.OpenFile(reportFile, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	// What is open counts, as the guest may put something else there meanwhile.
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	if at, err := root.Lstat(reportFile); err != nil || !os.SameFile(at, info) {
		return 0, false // a link leads to it
	}
	data, err := io.ReadAll(io.LimitReader(f, mostReport+1))
	if err != nil || len(data) > mostReport {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 31)
	if err != nil || n > mostCode {
		return 0, false
	}
	return int32(n), true // at most 255
}

// ClearReport removes the exit code of an attempt before the next begins.
func (s *Store) ClearReport(uid types.UID) error {
	dir := s.reportDir(uid)
	// The guest may have taken away its modes.
	err := os.Chmod(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	root, openErr := os.OpenRoot(dir)
	if err := errors.Join(err, openErr); err != nil {
		return fmt.Errorf("opening the directory of the exit code: %w", err)
	}
	defer root.Close()
	if err := filetree.RemoveIn(root, reportFile); err != nil {
		return fmt.Errorf("removing an earlier exit code: %w", err)
	}
	return nil
}

func (s *Store) reportDir(uid types.UID) string {
	return dirs{disk: filepath.Join(s.o.Dir, string(uid))}.report()
}
