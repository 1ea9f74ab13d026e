package vm

import (
	"bytes"
	"errors"
	"sync"
)

// errTooMuch ends a command whose output is longer than any that was asked for.
var errTooMuch = errors.New("the guest says more than was asked for")

// Bounded keeps a short answer of a guest. It fails where the guest writes more, which ends
// the command: nobody knows how much that would be.
type Bounded struct {
	most int
	data bytes.Buffer
}

// NewBounded keeps up to so many bytes.
func NewBounded(most int) *Bounded { return &Bounded{most: most} }

// Write fails beyond the bound.
func (b *Bounded) Write(p []byte) (int, error) {
	if b.data.Len()+len(p) > b.most {
		return 0, errTooMuch
	}
	return b.data.Write(p)
}

// Bytes are what was written.
func (b *Bounded) Bytes() []byte { return b.data.Bytes() }

// String is what was written.
func (b *Bounded) String() string { return b.data.String() }

// Beginning keeps the first bytes of what a command writes, and takes the rest. Both outputs
// of one command may go to it.
type Beginning struct {
	most int

	mu   sync.Mutex
	data []byte
}

// NewBeginning keeps up to so many bytes.
func NewBeginning(most int) *Beginning { return &Beginning{most: most} }

// Write never fails.
func (b *Beginning) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = append(b.data, p[:min(len(p), b.most-len(b.data))]...)
	return len(p), nil
}

// Bytes are those that were kept.
func (b *Beginning) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.data)
}
