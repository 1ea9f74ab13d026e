package guest

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// reports are what the wrapper says of a command between its output: that it could not
// start, or which process began, and how it ended, once on each output that the agent
// sends apart.
type reports struct {
	word []byte
	// began is told once what signals for the command go to. May be nil.
	began func(target int)
	// awaited is how many outputs are to report the end.
	awaited int
	// over is closed when all have, or the command could not start.
	over chan struct{}

	mu   sync.Mutex
	seen int
	// refused is why the command could not start. 0: it could.
	refused byte
	code    int
	muted   bool
}

func newReports(word string, outputs int) *reports {
	return &reports{word: []byte(word), awaited: outputs, over: make(chan struct{})}
}

// Why the wrapper refuses a command.
const (
	refusedDir     = 'd'
	refusedUnknown = 'n'
	refusedDenied  = 'p'
)

// reportBody follows the word; anything else that does is the command's output, such as a
// list of processes. g is a process group, p a process.
var reportBody = regexp.MustCompile(`^(x[dnp]|[0-9]{1,3}|[gp][0-9]{1,10});`)

// bodyBegin is what a body may begin with.
var bodyBegin = regexp.MustCompile(`^(x[dnp]?|[0-9]{0,3}|[gp][0-9]{0,10})$`)

// take notes one report.
func (r *reports) take(body string) {
	if r.seen == r.awaited || r.refused != 0 {
		return
	}
	if body[0] == 'g' || body[0] == 'p' {
		r.begin(body)
		return
	}
	r.seen++
	if body[0] == 'x' {
		r.refused = body[1]
	} else {
		r.code, _ = strconv.Atoi(body) // digits only
	}
	if r.refused != 0 || r.seen == r.awaited {
		close(r.over)
	}
}

// begin tells which process began, as kill(2) has it.
func (r *reports) begin(body string) {
	// Nothing that would mean the first process, or all of them.
	n, err := strconv.Atoi(body[1:])
	if err != nil || n < 2 || r.began == nil {
		return
	}
	if body[0] == 'g' {
		n = -n
	}
	r.began(n)
	r.began = nil
}

// end is how the command ended, as far as any output told.
func (r *reports) end() (code int, told bool, refused byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.code, r.seen > 0 && r.refused == 0, r.refused
}

// mute throws away what comes from now on: nobody takes it any more.
func (r *reports) mute() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.muted = true
}

// heldFor is how long output is held back that may be the beginning of a report, or of
// what anybody prints: whoever reads it may have to answer first. What has a part of the
// word that is random is a report, however long a busy guest takes for the rest of it.
const heldFor = 100 * time.Millisecond

// output passes one output on, without the reports in it.
type output struct {
	*reports
	to   io.Writer
	held []byte // the beginning of what may be a report
	// late flushes what is held for too long; failed is what came of that.
	late   *time.Timer
	failed error
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed != nil {
		return 0, o.failed
	}
	if o.late != nil {
		o.late.Stop()
	}
	text := p
	if len(o.held) > 0 {
		text = slices.Concat(o.held, p)
		o.held = nil
	}
	for {
		before, rest, body := o.cut(text)
		if err := o.pass(before); err != nil {
			return 0, err
		}
		if body == "" {
			o.hold(rest)
			return len(p), nil
		}
		o.take(body)
		text = rest
	}
}

// hold keeps the beginning of what may be a report; what may be none, for a while.
func (o *output) hold(text []byte) {
	if len(text) == 0 {
		return
	}
	o.held = bytes.Clone(text)
	if len(text) > len(wordBegin) {
		return
	}
	if o.late == nil {
		o.late = time.AfterFunc(heldFor, o.expire)
		return
	}
	o.late.Reset(heldFor)
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
		if bodyBegin.Match(text[from:]) {
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

func (o *output) pass(data []byte) error {
	if o.muted {
		return nil
	}
	return write(o.to, data)
}

// flush passes on what turned out to be no report.
func (o *output) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.release()
}

// expire passes on what was held for too long. It may come late, and find a report.
func (o *output) expire() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.held) <= len(wordBegin) {
		_ = o.release()
	}
}

func (o *output) release() error {
	held := o.held
	o.held = nil
	if o.failed == nil {
		o.failed = o.pass(held)
	}
	return o.failed
}
