package stage

import (
	"bytes"
	"strings"
	"sync"
)

// Log collects what agents say while others read it.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count of lines that hold all words.
func (l *Log) Count(words ...string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

// Reset forgets what was said.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// Tail is the end of the log.
func (l *Log) Tail(bytes int) string {
	text := l.String()
	if len(text) > bytes {
		return "…" + text[len(text)-bytes:]
	}
	return text
}
