package guest

import (
	"bytes"
	"testing"
)

func TestReportsAreCutOut(t *testing.T) {
	for _, c := range []struct {
		text, want string
		code       int
		told       bool
		refused    byte
	}{
		{"abWORD12;cd", "abcd", 12, true, 0},
		{"WORD0;", "", 0, true, 0},
		{"WORWORD137;late", "WORlate", 137, true, 0},
		{"WORDxn;", "", 0, false, 'n'},
		{"args: WORD no one", "args: WORD no one", 0, false, 0},
		{"WORD1234;", "WORD1234;", 0, false, 0},
		{"WORDx;", "WORDx;", 0, false, 0},
		{"WORDx", "WORDx", 0, false, 0},
		{"ends with WOR", "ends with WOR", 0, false, 0},
		{"WORD no WORD7;", "WORD no ", 7, true, 0},
		{"WORD3;WORD4;", "", 3, true, 0},
		{"WORD3;WORDxn;", "", 3, true, 0},
		{"WORDxd;WORD3;", "", 0, false, 'd'},
	} {
		// However it is cut in two.
		for at := range len(c.text) + 1 {
			var got bytes.Buffer
			r := newReports("WORD", 1)
			o := &output{reports: r, to: &got}
			for _, piece := range []string{c.text[:at], c.text[at:]} {
				if n, err := o.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Fatalf("%d, %v", n, err)
				}
			}
			if err := o.flush(); err != nil {
				t.Fatal(err)
			}
			code, told, refused := r.end()
			if got.String() != c.want || code != c.code || told != c.told || refused != c.refused {
				t.Errorf("%q cut at %d: %q, code %d, told %v, refused %q", c.text, at, &got, code, told, refused)
			}
		}
	}
}

// A command of which one output is still on its way is not over.
func TestAllOutputsReport(t *testing.T) {
	r := newReports("WORD", 2)
	for i, over := range []bool{false, true} {
		if _, err := (&output{reports: r}).Write([]byte("WORD5;")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-r.over:
			if !over {
				t.Errorf("over after report %d", i+1)
			}
		default:
			if over {
				t.Errorf("not over after report %d", i+1)
			}
		}
	}
}
