package filetree

import (
	"io/fs"
	"syscall"
)

// blockBytes is the unit of st_blocks, whatever the file system's own is.
const blockBytes = 512

// OnDisk is what a file takes on its volume, in bytes. What a clone shares with others
// is counted as its own.
func OnDisk(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * blockBytes
	}
	return info.Size()
}

// Size is what the regular files below dir take on their volume, in bytes: as many of
// them as are within the limits of a walk. It is 0 where there is no such directory.
func Size(dir string, limits Limits) int64 {
	var sum int64
	// What is beyond the limits, or not there, adds nothing.
	_ = Walk(dir, limits, func(_ string, info fs.FileInfo) {
		if info.Mode().IsRegular() {
			sum += OnDisk(info)
		}
	})
	return sum
}
