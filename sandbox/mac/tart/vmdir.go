package tart

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// vmDir is the directory of one VM, local or cached.
type vmDir string

func (vm vmDir) name() string   { return filepath.Base(string(vm)) }
func (vm vmDir) config() string { return filepath.Join(string(vm), "config.json") }
func (vm vmDir) disk() string   { return filepath.Join(string(vm), "disk.img") }
func (vm vmDir) nvram() string  { return filepath.Join(string(vm), "nvram.bin") }
func (vm vmDir) saved() string  { return filepath.Join(string(vm), "state.vzvmsave") }
func (vm vmDir) guest() string  { return filepath.Join(string(vm), "guest") }

// files are those that its size counts: of an image in layers without the layers.
func (vm vmDir) files() []string {
	switch vm.layout() {
	case stacked:
		return []string{vm.config(), vm.overlay(), vm.nvram()}
	case stackedRecord:
		return []string{vm.config(), vm.nvram()}
	default:
		return []string{vm.config(), vm.disk(), vm.nvram()}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// complete reports whether the files of a VM or an image are there.
func (vm vmDir) complete() bool { return vm.layout() != incomplete }

// state is running while a process holds the lock, whatever its guest is doing.
func (vm vmDir) state() string {
	switch {
	case vm.holder() != 0:
		return "running"
	case exists(vm.saved()):
		return "suspended"
	}
	return "stopped"
}

// sizes returns the bytes the VM appears to have and those allocated for it.
func (vm vmDir) sizes() (apparent, allocated int64) {
	for _, f := range vm.files() {
		var st unix.Stat_t
		if unix.Stat(f, &st) == nil {
			apparent += st.Size
			allocated += st.Blocks * 512 // st_blocks counts units of 512 bytes everywhere
		}
	}
	return apparent, allocated
}

func (vm vmDir) accessed() time.Time {
	var st unix.Stat_t
	if unix.Stat(string(vm), &st) != nil {
		return time.Time{}
	}
	return time.Unix(st.Atim.Unix()).UTC()
}

// touch records an access for least-recently-used pruning.
func (vm vmDir) touch() {
	if st, err := os.Stat(string(vm)); err == nil {
		_ = os.Chtimes(string(vm), time.Now(), st.ModTime())
	}
}

// copyTo copies what makes up a VM, a saved state included, but not its guest. It
// copies whole files, holes and all, if told to.
func (vm vmDir) copyTo(to vmDir, whole bool) error {
	clone := copySparse
	if whole {
		clone = copyWhole
	}
	for _, f := range append(vm.files(), vm.manifest(), vm.saved()) {
		err := clone(f, filepath.Join(string(to), filepath.Base(f)))
		optional := f == vm.saved() || f == vm.manifest()
		if err != nil && (!optional || !errors.Is(err, os.ErrNotExist)) {
			return fmt.Errorf("copying %s: %w", filepath.Base(f), err)
		}
	}
	return nil
}

// copySparse copies the allocated parts of a file only, so that a clone costs what
// it costs on APFS: next to nothing.
func copySparse(from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	st, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, st.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if err := dst.Truncate(st.Size()); err != nil {
		return err
	}
	return copyExtents(dst, src)
}

// copyWhole allocates what it copies.
func copyWhole(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{dst}, struct{ io.Reader }{src}) // not by the kernel, which may share blocks
	return errors.Join(err, dst.Close())
}

func copyExtents(dst, src *os.File) error {
	for end := int64(0); ; {
		start, err := src.Seek(end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // nothing but a hole up to the end
		}
		if err != nil {
			return err
		}
		if end, err = src.Seek(start, unix.SEEK_HOLE); err != nil {
			return err
		}
		extent := io.NewSectionReader(src, start, end-start)
		if _, err := io.Copy(io.NewOffsetWriter(dst, start), extent); err != nil {
			return err
		}
	}
}

// writeSparse makes a file of the given size that holds text at its start.
func writeSparse(path, text string, size int64) error {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Truncate(path, max(size, int64(len(text))))
}
