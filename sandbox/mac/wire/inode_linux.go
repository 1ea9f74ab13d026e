package wire

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// InodeOf identifies the file at path, without following a last link. The
// time of birth tells a file from an older one whose number it reuses; file
// systems that keep none count as having made everything at once.
func InodeOf(path string) (Inode, error) {
	return inodeAt(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
}

// InodeOfFile identifies an open file.
func InodeOfFile(f *os.File) (Inode, error) { return inodeAt(int(f.Fd()), "", unix.AT_EMPTY_PATH) }

// InodeAt identifies the file of a name in an open folder, without following
// a last link.
func InodeAt(dir *os.File, name string) (Inode, error) {
	return inodeAt(int(dir.Fd()), name, unix.AT_SYMLINK_NOFOLLOW)
}

func inodeAt(dir int, path string, flags int) (Inode, error) {
	var st unix.Statx_t
	if err := unix.Statx(dir, path, flags, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return Inode{}, fmt.Errorf("identifying %s: %w", path, err)
	}
	return Inode{
		Dev:   unix.Mkdev(st.Dev_major, st.Dev_minor),
		Ino:   st.Ino,
		Birth: st.Btime.Sec*1e9 + int64(st.Btime.Nsec),
	}, nil
}
