package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/utils/clock"
)

// Options of one reading, as in a PodLogOptions. Its zero value reads all there is.
type Options struct {
	// TailLines is how many entries to begin with, counted from the end; nil: all.
	// A long line is several entries, as it is for a kubelet.
	TailLines *int64
	// LimitBytes of output; nil: no limit. A line may be cut.
	LimitBytes *int64
	// Since leaves out entries that are older.
	Since time.Time
	// Timestamps begins each line with its time.
	Timestamps bool
	// Ended, where it is set, has the log followed: it reports whether nothing is written
	// any more. It is asked once a second. Nil: what is there is read.
	Ended func() bool
	// Flush is called before the reader waits for more; may be nil.
	Flush func()
	// Clock for the waiting. Nil: the real one.
	Clock clock.WithTicker
}

// Read writes the log at path to its writers, of which a nil one leaves out its
// stream. A log whose file is not there is empty. It ends with what was asked for,
// with ctx, or with the first error of a writer.
func Read(ctx context.Context, path string, o Options, stdout, stderr io.Writer) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	r := &reader{path: path, o: o, out: newOutput(o, stdout, stderr)}
	defer func() { closeSources(r.sources) }()
	if err := r.begin(); err != nil {
		return err
	}
	err := r.run(ctx)
	if errors.Is(err, errLimit) || errors.Is(err, errTail) {
		return nil
	}
	return err
}

// errTail: the entries that were asked for have been written.
var errTail = errors.New("the number of lines is reached")

type reader struct {
	path string
	o    Options
	out  *output
	wake *waker
	// sources are the files that are not read to their end, the oldest first. Only the
	// last one may still be written.
	sources []*source
	done    progress
	// entries that may still be written, where limited is set.
	limited bool
	entries int64
}

func (r *reader) begin() error {
	files, err := openFiles(r.path)
	if err != nil {
		return err
	}
	if r.o.TailLines == nil {
		r.sources = fromStart(files)
		return nil
	}
	r.entries = *r.o.TailLines
	// What is older is not asked for, also where the log has to be read again.
	r.done.newest = r.o.Clock.Now()
	// What comes while we read is not asked for.
	r.limited = r.o.Ended == nil
	r.sources, err = lastEntries(files, r.entries)
	return err
}

func fromStart(files []*os.File) []*source {
	var sources []*source
	for _, file := range files {
		sources = append(sources, newSource(file, 0))
	}
	return sources
}

func (r *reader) run(ctx context.Context) error {
	if r.o.Ended == nil {
		return r.drain(ctx)
	}
	r.wake = newWaker(r.path, r.o.Clock)
	defer r.wake.close()
	for {
		// Before what is there is read: nothing comes after it.
		ended := r.wake.due() && r.o.Ended()
		if err := r.drain(ctx); err != nil {
			return err
		}
		if ended {
			return r.finish()
		}
		r.flush()
		if err := r.wake.wait(ctx); err != nil {
			return err
		}
	}
}

func (r *reader) flush() {
	if r.o.Flush != nil {
		r.o.Flush()
	}
}

// drain writes all that is there.
func (r *reader) drain(ctx context.Context) error {
	for {
		err := r.copy(ctx)
		if errors.Is(err, errReplaced) {
			again, err := r.again()
			if err != nil || !again {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if more, err := r.advance(); err != nil || !more {
			return err
		}
	}
}

// copy writes what is there of the first of the files.
func (r *reader) copy(ctx context.Context) error {
	if len(r.sources) == 0 {
		return nil
	}
	for {
		if r.limited && r.entries <= 0 {
			return errTail
		}
		line, found, err := r.sources[0].line()
		if err != nil || !found {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.put(line); err != nil {
			return err
		}
	}
}

func (r *reader) put(line []byte) error {
	e, valid := parse(line)
	if !valid || !r.done.take(e.time) {
		return nil
	}
	r.entries--
	return r.out.write(e)
}

// finish writes the last line of a log whose writer was killed in the middle of it.
func (r *reader) finish() error {
	if len(r.sources) == 0 {
		return nil
	}
	return r.put(r.sources[len(r.sources)-1].unfinished())
}

// advance goes on to what follows the file that was read to its end. It reports
// whether there may be more to read now.
func (r *reader) advance() (bool, error) {
	switch {
	case len(r.sources) > 1:
		// It was rotated before it was read to its end: nothing was added to it since.
		r.sources[0].file.Close()
		r.sources = r.sources[1:]
		return true, nil
	case r.o.Ended == nil:
		// What comes while we read is not asked for.
		return false, nil
	}
	return r.follow()
}

// follow finds the files that are newer than the one that was read.
func (r *reader) follow() (bool, error) {
	info, err := os.Stat(r.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		// Nothing was written yet, or not since a rotation.
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking at a log: %w", err)
	case len(r.sources) > 0 && same(r.sources[0].file, info):
		return false, nil
	}
	files, err := openFiles(r.path)
	if err != nil {
		return false, orLater(err)
	}
	r.wake.moved()
	newer := 0
	if len(r.sources) > 0 {
		// Where the one we read is not among them it was removed: all of them are newer.
		newer = indexOf(files, r.sources[0].file) + 1
	}
	closeFiles(files[:newer])
	// What was written to that one before it was rotated is read first.
	r.sources = append(r.sources, fromStart(files[newer:])...)
	return len(files) > newer, nil
}

// orLater is nil for what another look may find.
func orLater(err error) error {
	if errors.Is(err, errRotating) {
		return nil
	}
	return err
}

// again begins anew, as the file was copied and emptied, or cut off. What was written
// already is left out. It reports whether it could.
func (r *reader) again() (bool, error) {
	files, err := openFiles(r.path)
	if err != nil {
		return false, orLater(err)
	}
	closeSources(r.sources)
	r.sources = fromStart(files)
	r.done.resume()
	return true, nil
}
