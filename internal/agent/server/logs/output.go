package logs

import (
	"errors"
	"io"
	"math"
	"time"
)

// stampFormat has all nine digits, so that lines align and sort.
const stampFormat = "2006-01-02T15:04:05.000000000Z07:00"

// errLimit: the bytes that were asked for have been written.
var errLimit = errors.New("the limit of bytes is reached")

// output writes entries as a kubelet does.
type output struct {
	stdout, stderr io.Writer
	since          time.Time
	timestamps     bool
	// left is how many bytes may still be written.
	left int64
	// within is set in the middle of a line, which has its time already.
	within bool
	line   []byte
}

func newOutput(o Options, stdout, stderr io.Writer) *output {
	w := &output{stdout: stdout, stderr: stderr, since: o.Since, timestamps: o.Timestamps, left: math.MaxInt64}
	if o.LimitBytes != nil {
		w.left = *o.LimitBytes
	}
	return w
}

// write returns errLimit once the limit is reached. Entries of a stream without a
// writer count for nothing.
func (w *output) write(e entry) error {
	fresh := !w.within
	w.within = len(e.content) > 0 && e.content[len(e.content)-1] != '\n'
	to := w.stdout
	if e.stream == Stderr {
		to = w.stderr
	}
	if to == nil || e.time.Before(w.since) {
		return nil
	}
	w.line = w.line[:0]
	if w.timestamps && fresh {
		w.line = append(e.time.AppendFormat(w.line, stampFormat), ' ')
	}
	w.line = append(w.line, e.content...)
	n, err := to.Write(w.line[:min(int64(len(w.line)), w.left)])
	w.left -= int64(n)
	if err != nil {
		return err
	}
	if w.left <= 0 {
		return errLimit
	}
	return nil
}
