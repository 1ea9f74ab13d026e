package logs

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// lastEntries returns the files from the one that has the last n entries of all on,
// each with where to begin. It closes the others.
func lastEntries(files []*os.File, n int64) ([]*source, error) {
	var sources []*source
	for i := len(files) - 1; i >= 0; i-- {
		if n <= 0 && len(sources) > 0 {
			files[i].Close()
			continue
		}
		start, found, err := lastLines(files[i], n)
		if err != nil {
			closeFiles(files[:i+1])
			closeSources(sources)
			return nil, err
		}
		n -= found
		sources = append([]*source{newSource(files[i], start)}, sources...)
	}
	return sources, nil
}

// lastLines returns where the last n whole lines of a file begin, or all it has, and
// how many these are.
func lastLines(file *os.File, n int64) (start, found int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, 0, fmt.Errorf("looking at a log: %w", err)
	}
	buffer := make([]byte, readBytes)
	// newlines seen from the end: the first one ends the last line.
	newlines := int64(0)
	for end := info.Size(); end > 0; {
		from := max(0, end-readBytes)
		block := buffer[:end-from]
		if _, err := file.ReadAt(block, from); err != nil && err != io.EOF {
			return 0, 0, fmt.Errorf("reading a log: %w", err)
		}
		for {
			i := bytes.LastIndexByte(block, '\n')
			if i < 0 {
				break
			}
			if newlines++; newlines > n {
				return from + int64(i) + 1, n, nil
			}
			block = block[:i]
		}
		end = from
	}
	return 0, newlines, nil
}

func closeSources(sources []*source) {
	for _, s := range sources {
		s.file.Close()
	}
}
