package guest

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// A report is one also where its pieces come long apart, as from a guest that is busy;
// what anybody may print by chance goes on after a moment.
func TestReportsInPiecesThatComeLate(t *testing.T) {
	const word = wordBegin + "WORD"
	for _, c := range []struct {
		first, early string
		rest, want   string
		told         bool
	}{
		{"out" + word, "out", "7;", "out", true},
		{"out" + word + "1", "out", "37;", "out", true},
		{"out" + wordBegin + "WO", "out", "RD7;", "out", true},
		{"out" + wordBegin, "out" + wordBegin, "x", "out" + wordBegin + "x", false},
		{"out" + wordMark, "out" + wordMark, "x", "out" + wordMark + "x", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got bytes.Buffer
			r := newReports(word, 1)
			o := &output{reports: r, to: &got}
			_, _ = o.Write([]byte(c.first))
			<-time.After(2 * heldFor) // by the clock of the bubble
			r.mu.Lock()
			if got.String() != c.early {
				t.Errorf("%q shows %q after a moment", c.first, &got)
			}
			r.mu.Unlock()
			_, _ = o.Write([]byte(c.rest))
			_ = o.flush()
			if _, told, _ := r.end(); told != c.told || got.String() != c.want {
				t.Errorf("%q, %q: told %v, output %q", c.first, c.rest, told, &got)
			}
		})
	}
}
