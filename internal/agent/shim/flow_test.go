package shim

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

// What was read makes room for what comes, up to the window, and nothing gets lost or mixed up.
func TestAnInboxMovesWhatWaits(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	sent, got, open := []byte{}, []byte{}, window
	i := newInbox(func(n int) { open += n })
	// Another one takes whatever room is given back, and writes into it.
	other := newInbox(func(int) {})
	defer other.end(io.EOF)
	buf := make([]byte, framePiece)
	for len(sent) < 20*window {
		for n := dice.IntN(framePiece); n <= open; n = dice.IntN(2 * framePiece) {
			piece := make([]byte, n)
			for at := range piece {
				piece[at] = byte(dice.Uint32())
			}
			if err := i.put(piece); err != nil {
				t.Fatal(err)
			}
			sent, open = append(sent, piece...), open-n
		}
		for range dice.IntN(8) {
			if len(got) == len(sent) {
				break
			}
			n, err := i.Read(buf[:1+dice.IntN(len(buf)-1)])
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, buf[:n]...)
			if err := other.put(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := i.put(make([]byte, open+1)); !errors.Is(err, errProtocol) {
		t.Errorf("more than the window: %v", err)
	}
	i.end(io.EOF)
	rest, err := io.ReadAll(i)
	if err != nil {
		t.Fatal(err)
	}
	if got = append(got, rest...); !bytes.Equal(got, sent) {
		t.Errorf("%d bytes were read of %d, or others", len(got), len(sent))
	}
}
