package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// spinEvery is how often the line of a terminal is drawn again.
const spinEvery = 200 * time.Millisecond

// progress shows what is being done: one line that changes on a terminal, plain
// lines elsewhere. Each finished step says how long it took.
type progress struct {
	out      io.Writer
	terminal bool
	width    func() int // of the terminal now
	began    time.Time

	mu      sync.Mutex
	current string
	since   time.Time
	stop    chan struct{}
	stopped sync.Once
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, began: time.Now(), stop: make(chan struct{})}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.terminal = true
		p.width = func() int {
			width, _, err := term.GetSize(int(file.Fd()))
			if err != nil {
				return 0
			}
			return width
		}
		go p.spin()
	}
	return p
}

// kind is the text without its numbers: a step that only counts on is the same step.
func kind(text string) string {
	before, _, _ := strings.Cut(text, ":")
	return before
}

// step says what is being done now.
func (p *progress) step(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == p.current {
		return
	}
	if kind(text) != kind(p.current) {
		p.finish()
		p.since = time.Now()
		if !p.terminal {
			fmt.Fprintf(p.out, "%s\n", text)
		}
	}
	p.current = text
	p.draw(0)
}

// done says what was achieved, with the time since the start.
func (p *progress) done(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
	fmt.Fprintf(p.out, "%s (%s)\n", text, time.Since(p.began).Round(100*time.Millisecond))
}

// print prints text as it is.
func (p *progress) print(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
	fmt.Fprint(p.out, text)
}

// end clears the line of an unfinished step.
func (p *progress) end() {
	p.stopped.Do(func() { close(p.stop) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal && p.current != "" {
		fmt.Fprint(p.out, "\r\033[K")
	}
	p.current = ""
}

// finish leaves the current step behind as a line of its own. Callers hold the lock.
func (p *progress) finish() {
	if p.current == "" {
		return
	}
	took := time.Since(p.since).Round(100 * time.Millisecond)
	text := p.current
	if strings.HasSuffix(text, " left") { // an estimate says nothing any more
		text = kind(text)
	}
	if p.terminal {
		fmt.Fprintf(p.out, "\r\033[K  %s (%s)\n", text, took)
	} else {
		fmt.Fprintf(p.out, "  done: %s (%s)\n", text, took)
	}
	p.current = ""
}

// drop forgets an unfinished step, so that nobody takes it for done.
func (p *progress) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == "" {
		return
	}
	if p.terminal {
		fmt.Fprint(p.out, "\r\033[K")
	}
	fmt.Fprintf(p.out, "  not done: %s\n", p.current)
	p.current = ""
}

func (p *progress) spin() {
	ticker := time.NewTicker(spinEvery)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.mu.Lock()
			p.draw(n)
			p.mu.Unlock()
		}
	}
}

// draw draws the terminal's line. Callers hold the lock.
func (p *progress) draw(n int) {
	if p.terminal && p.current != "" {
		fmt.Fprintf(p.out, "\r\033[K%c %s", `|/-\`[n%4], fit(p.current, p.width()-2))
	}
}

// fit cuts a text so that it ends before the last column: a line that wraps cannot be drawn
// again. A width below 3 is unknown, or of no use.
func fit(text string, width int) string {
	letters := []rune(text)
	if width < 3 || len(letters) < width {
		return text
	}
	return string(letters[:width-2]) + "…"
}
