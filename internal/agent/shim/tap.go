package shim

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
)

const (
	// maxBehind is how much output may wait for one who is attached, in bytes: about what a
	// terminal or a pipe to one takes at once, many times over.
	maxBehind = 1 << 20
	// maxTapped is how much may wait for all of them.
	maxTapped = 16 << 20
)

// taps are those who get the output of a command as it comes. They never hold it up.
type taps struct {
	// waiting is how much output waits for all readers of the shim.
	waiting *atomic.Int64

	mu    sync.Mutex
	all   map[*tap]struct{}
	ended bool
}

// open adds a reader, of what comes from now on.
func (t *taps) open() *tap {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := &tap{waiting: t.waiting}
	n.more.L = &n.mu
	if t.ended {
		n.err = io.EOF
		return n
	}
	if t.all == nil {
		t.all = map[*tap]struct{}{}
	}
	t.all[n] = struct{}{}
	return n
}

// remove ends one of them.
func (t *taps) remove(n *tap) {
	t.mu.Lock()
	delete(t.all, n)
	t.mu.Unlock()
	n.drop(io.EOF)
}

func (t *taps) put(k kind, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range t.all {
		n.put(k, data)
	}
}

// end tells all that no more will come.
func (t *taps) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for n := range t.all {
		n.end(io.EOF)
	}
	t.all = nil
}

// tapped is one output of a command: its log, and who is attached.
type tapped struct {
	taps *taps
	kind kind
	log  io.Writer
}

func (w tapped) Write(p []byte) (int, error) {
	n, err := len(p), error(nil)
	if w.log != nil {
		n, err = w.log.Write(p)
	}
	w.taps.put(w.kind, p)
	return n, err
}

// tap keeps output for one reader. One that falls behind gets what was kept for it, and
// then an error: a hole that nobody sees would be worse.
type tap struct {
	waiting *atomic.Int64

	mu     sync.Mutex
	more   sync.Cond
	pieces []tapPiece
	size   int
	err    error
}

type tapPiece struct {
	kind kind
	data []byte
}

// put never waits.
func (t *tap) put(k kind, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	if t.size+len(data) > maxBehind || t.waiting.Load()+int64(len(data)) > maxTapped {
		t.err = ErrFellBehind
	} else {
		t.keep(k, data)
	}
	t.more.Broadcast()
}

func (t *tap) keep(k kind, data []byte) {
	t.size += len(data)
	t.waiting.Add(int64(len(data)))
	if last := len(t.pieces) - 1; last >= 0 && t.pieces[last].kind == k && len(t.pieces[last].data)+len(data) <= framePiece {
		t.pieces[last].data = append(t.pieces[last].data, data...)
		return
	}
	t.pieces = append(t.pieces, tapPiece{k, bytes.Clone(data)})
}

// next waits for output; its error comes after all that was kept.
func (t *tap) next() (tapPiece, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.pieces) == 0 && t.err == nil {
		t.more.Wait()
	}
	if len(t.pieces) == 0 {
		return tapPiece{}, t.err
	}
	p := t.pieces[0]
	t.pieces = t.pieces[1:]
	t.size -= len(p.data)
	t.waiting.Add(-int64(len(p.data)))
	return p, nil
}

func (t *tap) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
	t.more.Broadcast()
}

// drop ends it, and forgets what nobody reads any more.
func (t *tap) drop(err error) {
	t.end(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting.Add(-int64(t.size))
	t.pieces, t.size = nil, 0
}
