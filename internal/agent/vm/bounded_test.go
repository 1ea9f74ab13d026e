package vm

import "testing"

func TestBounded(t *testing.T) {
	b := NewBounded(4)
	for _, piece := range []string{"ab", "cd"} {
		if n, err := b.Write([]byte(piece)); n != 2 || err != nil {
			t.Errorf("%q: %d, %v", piece, n, err)
		}
	}
	if _, err := b.Write([]byte("e")); err == nil || b.String() != "abcd" {
		t.Errorf("%q was kept beyond the bound: %v", b, err)
	}
}

func TestTheBeginningOfAnOutputIsKept(t *testing.T) {
	b := NewBeginning(5)
	for _, text := range []string{"abc", "def", "ghi"} {
		if n, err := b.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%s: %d bytes taken, err %v", text, n, err)
		}
	}
	if got := string(b.Bytes()); got != "abcde" {
		t.Errorf("kept %q", got)
	}
}
