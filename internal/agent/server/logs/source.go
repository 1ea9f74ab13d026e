package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	readBytes = 64 << 10
	// maxEntry bounds what is kept of one line of a file. Entries are far shorter.
	maxEntry = 1 << 20
	// markBytes of what was read last tell a file from another that took its place:
	// they have the time of an entry or are part of one.
	markBytes = 128
)

// errReplaced: what was read is not in the file any more. It was emptied or cut off,
// and perhaps written again.
var errReplaced = errors.New("the log was written anew")

// source reads the lines of one file, whose last one may still be written.
type source struct {
	file *os.File
	// at is where in the file the next bytes are read, mark what is before that.
	at   int64
	mark []byte
	// buffer is what was read and not yet taken, from start on; scanned bytes of that
	// have no newline.
	buffer         []byte
	start, scanned int
	chunk          []byte
}

func newSource(file *os.File, at int64) *source { return &source{file: file, at: at} }

// line returns the next whole line, with its newline; false: there is none yet. It is
// valid until the next call. It fails with errReplaced.
func (s *source) line() ([]byte, bool, error) {
	for {
		rest := s.buffer[s.start:]
		if i := bytes.IndexByte(rest[s.scanned:], '\n'); i >= 0 {
			line := rest[:s.scanned+i+1]
			s.start += len(line)
			s.scanned = 0
			return line, true, nil
		}
		s.scanned = len(rest)
		if len(rest) > maxEntry {
			// No entry is that long: what is left of the line will be none either.
			s.start, s.scanned = len(s.buffer), 0
		}
		if n, err := s.fill(); n == 0 || err != nil {
			return nil, false, err
		}
	}
}

// unfinished returns what follows the last newline.
func (s *source) unfinished() []byte { return s.buffer[s.start:] }

// fill reads more. What was read before is looked at in the same read, so that no
// other bytes in its place are taken for its continuation.
func (s *source) fill() (int, error) {
	if s.chunk == nil {
		s.chunk = make([]byte, markBytes+readBytes)
	}
	known := len(s.mark)
	n, err := s.file.ReadAt(s.chunk[:known+readBytes], s.at-int64(known))
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("reading a log: %w", err)
	}
	if n < known || !bytes.Equal(s.chunk[:known], s.mark) {
		return 0, errReplaced
	}
	s.buffer = append(s.buffer[:0], s.buffer[s.start:]...)
	s.buffer = append(s.buffer, s.chunk[known:n]...)
	s.start = 0
	s.at += int64(n - known)
	s.mark = append(s.mark[:0], s.chunk[max(0, n-markBytes):n]...)
	return n - known, nil
}
