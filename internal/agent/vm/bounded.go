package vm

import (
	"bytes"
	"errors"
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
