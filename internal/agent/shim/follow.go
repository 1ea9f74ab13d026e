package shim

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"time"
)

const (
	// The output is looked at often while there is some, and rarely while there is
	// none: a look is one fstat.
	minLogPoll = 50 * time.Millisecond
	maxLogPoll = time.Second
)

// follower reads what a command writes to its file: it copies lines to a log of the
// CRI, and keeps the file in its bounds. The command has the file itself, opened to
// append, so that neither our death nor our slowness can hold it up.
type follower struct {
	file   *os.File
	path   string
	limits Logs
	// lines gets what is read; nil: nobody does.
	lines  *lineWriter
	offset int64
	buffer [4 << 10]byte
}

// follow looks until ctx ends, and then once more.
func (f *follower) follow(ctx context.Context) {
	for look := minLogPoll; ; {
		news := f.poll()
		if ctx.Err() != nil {
			break
		}
		look = min(2*look, maxLogPoll)
		if news {
			look = minLogPoll
		}
		t := time.NewTimer(look)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
	if f.lines != nil {
		f.lines.end()
	}
}

// poll reads what is new, and rotates a file that is full. It reports whether there
// was anything.
func (f *follower) poll() bool {
	before := f.offset
	f.read()
	news := f.offset != before
	if f.offset >= f.limits.MaxBytes {
		f.rotate()
	}
	return news
}

func (f *follower) read() {
	if f.lines == nil {
		if st, err := f.file.Stat(); err == nil {
			f.offset = st.Size()
		}
		return
	}
	for {
		n, err := f.file.ReadAt(f.buffer[:], f.offset)
		if n > 0 {
			f.offset += int64(n)
			_, _ = f.lines.Write(f.buffer[:n])
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// rotate copies and empties the file, as who writes it keeps it open. What is
// written between the two is lost; a file that cannot be copied is emptied all the
// same, so that it stays in its bounds.
func (f *follower) rotate() {
	if f.limits.MaxFiles > 1 {
		if err := f.copyAway(); err != nil {
			_ = os.Remove(numbered(f.path, 1))
		}
	}
	if err := f.file.Truncate(0); err == nil {
		f.offset = 0
	}
}

func (f *follower) copyAway() (err error) {
	for i := f.limits.MaxFiles - 1; i > 1; i-- {
		_ = os.Rename(numbered(f.path, i-1), numbered(f.path, i))
	}
	to, err := os.OpenFile(numbered(f.path, 1), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if _, err := io.Copy(to, io.NewSectionReader(f.file, 0, math.MaxInt64)); err != nil {
		return err
	}
	// What came while the copy was made.
	f.read()
	return nil
}

// tail returns the last part of the output, also where it was just rotated.
func (f *follower) tail() string {
	end := lastBytes(f.file, tailBytes)
	if len(end) < tailBytes {
		if before, err := os.Open(numbered(f.path, 1)); err == nil {
			end = lastBytes(before, tailBytes-len(end)) + end
			_ = before.Close()
		}
	}
	return end
}

func lastBytes(f *os.File, n int) string {
	st, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(0, st.Size()-int64(n))
	data, err := io.ReadAll(io.NewSectionReader(f, from, st.Size()-from))
	if err != nil {
		return ""
	}
	return string(data)
}
