package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// entryRoom is more than the head of an entry takes: time, stream and tag.
const entryRoom = 64

// TailLog returns the last part of what was logged to a log of the attempt in dir:
// the text alone, of both streams, at most so many lines and bytes of it. Only the
// current file is read, so that it may be less just after a rotation. A log that is
// not there is an empty one.
func TailLog(dir, log string, lines, size int) (string, error) {
	f, err := os.Open(filepath.Join(dir, log))
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the end of a log: %w", err)
	}
	defer f.Close()
	// One line more than asked for: the first one read may be the end of an entry.
	raw := lastBytes(f, size+maxLine+(lines+1)*entryRoom)
	entries := strings.SplitAfter(raw, "\n")
	text := make([]byte, 0, size)
	for _, entry := range entries[max(0, len(entries)-1-lines):] {
		text = append(text, content(entry)...)
	}
	return string(text[max(0, len(text)-size):]), nil
}

// content is the text of an entry: a whole line with its end, or a piece without.
func content(entry string) string {
	fields := strings.SplitN(entry, " ", 4)
	if len(fields) < 4 {
		return ""
	}
	switch fields[2] {
	case "F":
		return fields[3]
	case "P":
		return strings.TrimSuffix(fields[3], "\n")
	}
	return ""
}
