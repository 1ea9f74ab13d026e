package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// openTries is how often the files are opened anew, where the log was rotated
// meanwhile: a try takes microseconds, and the writer has a whole file to fill.
const openTries = 1000

// errRotating: no moment was found between two rotations.
var errRotating = errors.New("the log is rotated faster than it can be opened")

// openFiles opens the log and its rotations as they are at one moment, the oldest
// first. A log without a file has none.
func openFiles(path string) ([]*os.File, error) {
	for range openTries {
		files, err := tryOpen(path)
		if err != nil {
			return nil, err
		}
		if current(path, files) {
			slices.Reverse(files)
			return files, nil
		}
		closeFiles(files)
	}
	return nil, errRotating
}

// tryOpen opens the newest first: a rotation renames to what is opened later, so that
// a file may be found twice but never be missed.
func tryOpen(path string) ([]*os.File, error) {
	var files []*os.File
	// A rotation leaves one hole for a moment, and there is no file behind two.
	for i, missing := 0, 0; missing < 2; i++ {
		file, err := os.Open(numbered(path, i))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// The current file may be missing for longer: the next entry makes it.
			if i > 0 {
				missing++
			}
			continue
		case err != nil:
			closeFiles(files)
			return nil, fmt.Errorf("opening a log: %w", err)
		}
		missing = 0
		if among(files, file) {
			file.Close()
			continue
		}
		files = append(files, file)
	}
	return files, nil
}

func numbered(path string, i int) string {
	if i == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, i)
}

// current reports whether the newest of the files, which are the newest first, is
// still that: then no rotation came while they were opened.
func current(path string, files []*os.File) bool {
	for i := range 2 {
		if now, err := os.Stat(numbered(path, i)); err == nil {
			return len(files) > 0 && same(files[0], now)
		}
	}
	// Neither is there, now and when they were opened.
	return true
}

func among(files []*os.File, file *os.File) bool { return indexOf(files, file) >= 0 }

// indexOf finds a file that may be open under another name; -1: it is not there.
func indexOf(files []*os.File, file *os.File) int {
	info, err := file.Stat()
	if err != nil {
		return -1
	}
	return slices.IndexFunc(files, func(f *os.File) bool { return same(f, info) })
}

func same(file *os.File, as fs.FileInfo) bool {
	info, err := file.Stat()
	return err == nil && os.SameFile(info, as)
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}
