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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	info, err := root.Lstat(reportFile)
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	// A guest may swap it for a pipe meanwhile, which must not hold us up.
	f, err := root.OpenFile(reportFile, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostReport+1))
	if err != nil || len(data) > mostReport {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 31)
	if err != nil || n > mostCode {
		return 0, false
	}
	return int32(n), true //nolint:gosec // at most 255
}

// ClearReport removes the exit code of an attempt before the next begins.
func (s *Store) ClearReport(uid types.UID) error {
	root, err := os.OpenRoot(s.reportDir(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the directory of the exit code: %w", err)
	}
	defer root.Close()
	if err := root.RemoveAll(reportFile); err != nil {
		return fmt.Errorf("removing an earlier exit code: %w", err)
	}
	return nil
}

func (s *Store) reportDir(uid types.UID) string {
	return dirs{disk: filepath.Join(s.o.Dir, string(uid))}.report()
}

// Usage finds an emptyDir of the Pod that has outgrown its limit, and says how much
// it holds on disk, in bytes. over is false when there is none.
func (s *Store) Usage(p *corev1.Pod) (volume string, used, limit int64, over bool) {
	d := dirs{disk: filepath.Join(s.o.Dir, string(p.UID))}
	if ram, ok := s.o.Secrets.Made(); ok {
		d.ram = filepath.Join(ram, string(p.UID))
	}
	for _, v := range mounted(p) {
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		used, limit = size(homeOf(d, p, v).path()), v.EmptyDir.SizeLimit.Value()
		if used > limit {
			return v.Name, used, limit, true
		}
	}
	return "", 0, 0, false
}

// blockBytes is the unit of st_blocks, whatever the file system's own is.
const blockBytes = 512

// size adds up what a tree holds on disk. What cannot be read counts nothing.
func size(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a guest changes the tree meanwhile
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += onDisk(info)
		}
		return nil
	})
	return sum
}

func onDisk(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * blockBytes
	}
	return info.Size()
}
