package vmtest

import (
	"strings"
	"sync"
)

// tail collects the output of a command.
type tail struct {
	mu   sync.Mutex
	text strings.Builder
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
