package guest

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// reports are what the wrapper says of a command between its output: that it could not
// start, or how it ended, once on each output that the agent sends apart.
type reports struct {
	word []byte
	// awaited is how many outputs are to report the end.
	awaited int
	// over is closed when all have, or the command could not start.
	over chan struct{}

	mu      sync.Mutex
	seen    int
	refused bool
	code    int
	muted   bool
}

func newReports(word string, outputs int) *reports {
	return &reports{word: []byte(word), awaited: outputs, over: make(chan struct{})}
}

// reportBody follows the word; anything else that does is the command's output, such as a
// list of processes.
var reportBody = regexp.MustCompile(`^(x|[0-9]{1,3});`)

// reportMost is the longest body, in bytes.
const reportMost = 4

// take notes one report.
func (r *reports) take(body string) {
	if r.seen == r.awaited || r.refused {
		return
	}
	r.seen++
	if body == "x" {
		r.refused = true
	} else {
		r.code, _ = strconv.Atoi(body) // digits only
	}
	if r.refused || r.seen == r.awaited {
		close(r.over)
	}
}

// end is how the command ended, as far as any output told.
func (r *reports) end() (code int, told, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.code, r.seen > 0 && !r.refused, r.refused
}

// mute throws away what comes from now on: nobody takes it any more.
func (r *reports) mute() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.muted = true
}

// output passes one output on, without the reports in it.
type output struct {
	*reports
	to   io.Writer
	held []byte // the beginning of what may be a report
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := slices.Concat(o.held, p)
	o.held = nil
	for {
		before, rest, body := o.cut(text)
		if err := o.pass(before); err != nil {
			return 0, err
		}
		if body == "" {
			o.held = rest
			return len(p), nil
		}
		o.take(body)
		text = rest
	}
}

// cut returns what precedes the first report, what follows it, and its body; without
// one, what of the text may still become one follows.
func (o *output) cut(text []byte) (before, after []byte, body string) {
	for from := 0; ; {
		i := bytes.Index(text[from:], o.word)
		if i < 0 {
			break
		}
		begin := from + i
		from = begin + len(o.word)
		if m := reportBody.FindSubmatch(text[from:]); m != nil {
			return text[:begin], text[from+len(m[0]):], string(m[1])
		}
		if len(text)-from < reportMost && undecided(text[from:]) {
			return text[:begin], text[begin:], ""
		}
	}
	for n := min(len(o.word)-1, len(text)); n > 0; n-- {
		if bytes.HasSuffix(text, o.word[:n]) {
			return text[:len(text)-n], text[len(text)-n:], ""
		}
	}
	return text, nil, ""
}

// undecided: more of the same may make it the body of a report.
func undecided(text []byte) bool {
	return string(text) == "x" || len(bytes.Trim(text, "0123456789")) == 0
}

func (o *output) pass(data []byte) error {
	if o.muted {
		return nil
	}
	return write(o.to, data)
}

// flush lets go of what turned out to be no report.
func (o *output) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	held := o.held
	o.held = nil
	return o.pass(held)
}
