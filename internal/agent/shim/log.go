package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

const (
	// maxLine is the longest line, and the longest piece of one, in a log: what other
	// runtimes of the CRI write.
	maxLine = 16 << 10
	// maxBatch is written at once.
	maxBatch = 32 << 10
)

// logFile is one log in the format of the CRI: "<time> <stream> <F or P> <line>",
// where P is a piece whose line goes on in the next entry of its stream. It is
// rotated by size. A log that cannot be written loses lines and says so later: it
// never holds up, or fails, who writes.
type logFile struct {
	path   string
	limits Logs
	now    func() time.Time

	mu      sync.Mutex
	file    *os.File
	size    int64
	batch   []byte
	entries int
	// dropped entries since the last one that was written, and why.
	dropped int
	cause   error
}

func newLog(path string, limits Logs) *logFile {
	return &logFile{path: path, limits: limits.withDefaults(), now: time.Now}
}

// stream returns the writer of one stream, "stdout" or "stderr".
func (l *logFile) stream(name string) *lineWriter { return &lineWriter{log: l, name: name} }

// Close says what is missing, if it can, and writes nothing more; streams are
// flushed before.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped > 0 {
		_ = l.put()
	}
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// lineWriter cuts one stream into entries of a log.
type lineWriter struct {
	log  *logFile
	name string
	// pending is a line whose end has not come, maxLine bytes at most.
	pending []byte
}

// Write never fails.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	n, now := len(p), w.log.stamp()
	for len(p) > 0 {
		room := maxLine - len(w.pending)
		end := bytes.IndexByte(p[:min(len(p), room+1)], '\n')
		switch {
		case end >= 0:
			w.emit(now, 'F', p[:end])
			p = p[end+1:]
		case len(p) > room:
			w.emit(now, 'P', p[:room])
			p = p[room:]
		default:
			w.pending = append(w.pending, p...)
			p = nil
		}
	}
	w.log.flush()
	return n, nil
}

// end writes a line that never ended.
func (w *lineWriter) end() {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if len(w.pending) > 0 {
		w.emit(w.log.stamp(), 'P', nil)
		w.log.flush()
	}
}

// emit makes an entry of what is pending and what follows it.
func (w *lineWriter) emit(now string, tag byte, rest []byte) {
	l := w.log
	if len(l.batch) > 0 && len(l.batch)+len(w.pending)+len(rest) > maxBatch {
		l.flush()
	}
	l.batch = append(appendHead(l.batch, now, w.name, tag), w.pending...)
	l.batch = append(append(l.batch, rest...), '\n')
	l.entries++
	w.pending = w.pending[:0]
}

func appendHead(b []byte, now, stream string, tag byte) []byte {
	b = append(append(b, now...), ' ')
	b = append(append(b, stream...), ' ')
	return append(b, tag, ' ')
}

func (l *logFile) stamp() string { return l.now().UTC().Format(time.RFC3339Nano) }

// flush writes the batch, or counts what is lost with it.
func (l *logFile) flush() {
	if l.entries == 0 {
		return
	}
	err := l.put()
	if err != nil {
		l.dropped += l.entries
		l.cause = err
	}
	l.batch, l.entries = l.batch[:0], 0
}

func (l *logFile) put() error {
	if err := l.ready(int64(len(l.batch))); err != nil {
		return err
	}
	if l.dropped > 0 {
		notice := appendHead(nil, l.stamp(), "stderr", 'F')
		notice = fmt.Appendf(notice, "macfleet: %d lines of output are missing here, they could not be written: %v\n", l.dropped, withoutPath(l.cause))
		if err := l.write(notice); err != nil {
			return err
		}
		l.dropped, l.cause = 0, nil
	}
	return l.write(l.batch)
}

// withoutPath keeps the host's paths out of what users read.
func withoutPath(err error) error {
	if at := new(fs.PathError); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// write leaves nothing behind when it fails, so that the log stays whole lines.
func (l *logFile) write(data []byte) error {
	n, err := l.file.Write(data)
	if err == nil {
		l.size += int64(n)
		return nil
	}
	if truncateErr := l.file.Truncate(l.size); truncateErr != nil {
		l.size += int64(n)
	}
	return err
}

// ready opens the file, and rotates it where more does not fit.
func (l *logFile) ready(more int64) error {
	if l.file != nil && l.size > 0 && l.size+more > l.limits.MaxBytes {
		_ = l.file.Close()
		l.file = nil
		if err := shift(l.path, l.limits.MaxFiles); err != nil {
			return err
		}
	}
	if l.file != nil {
		return nil
	}
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening a log: %w", err)
	}
	st, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("opening a log: %w", err)
	}
	l.file, l.size = file, st.Size()
	return nil
}

// shift makes room for a new file of a log: <log> becomes <log>.1, and so on; what
// is one too many is removed.
func shift(path string, files int) error {
	if files < 2 {
		return os.Remove(path)
	}
	for i := files - 1; i > 1; i-- {
		// One that is not there yet is no failure.
		_ = os.Rename(numbered(path, i-1), numbered(path, i))
	}
	if err := os.Rename(path, numbered(path, 1)); err != nil {
		return fmt.Errorf("rotating a log: %w", err)
	}
	return nil
}

func numbered(path string, i int) string { return fmt.Sprintf("%s.%d", path, i) }
