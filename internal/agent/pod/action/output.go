package action

import "sync"

// Output keeps the beginning of what a command writes, and takes the rest. Both outputs of
// one command may go to it.
type Output struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p[:min(len(p), maxOutput-len(o.text))]...)
	return len(p), nil
}

// Bytes is what was kept.
func (o *Output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]byte(nil), o.text...)
}
