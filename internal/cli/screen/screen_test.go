package screen

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
)

func TestColoursAndWidthAreOfTerminals(t *testing.T) {
	var text strings.Builder
	none := func(string) string { return "" }
	if got := Of(&text, none); got != (Screen{}) {
		t.Errorf("a pipe is %+v", got)
	}
	_, terminal, err := pty.Open()
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	defer terminal.Close()
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 24, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	if got := Of(terminal, none); got != (Screen{Width: 40, Colour: true, Terminal: true}) {
		t.Errorf("a terminal of 40 columns is %+v", got)
	}
	for _, set := range []string{"NO_COLOR=1", "TERM=dumb"} {
		name, value, _ := strings.Cut(set, "=")
		getenv := func(asked string) string {
			if asked == name {
				return value
			}
			return ""
		}
		if Of(terminal, getenv).Colour {
			t.Errorf("%s is not heeded", set)
		}
	}
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := Of(file, none); got != (Screen{}) {
		t.Errorf("a file is %+v", got)
	}
}

func TestWrapBreaksBetweenWords(t *testing.T) {
	got := Screen{Width: 24}.Wrap("one two  three four-and-a-long-word-that-fits-nowhere five", "  ")
	want := []string{"  one two three", "  four-and-a-long-word-that-fits-nowhere", "  five"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a guest, or a Node that somebody took over, wrote moves no cursor and forges no line.
func TestATerminalIsNotObeyed(t *testing.T) {
	const evil = "gone\x1b[2J\a\u009b1A\rtype rm"
	const clean = "gone\ufffd[2J\ufffd\ufffd1A\ufffdtype rm"
	if got := (Screen{Colour: true}).Paint(evil, Plain); got != clean {
		t.Errorf("painted %q, want %q", got, clean)
	}
	if got := (Screen{}).Wrap("gone\x1b[2J\x07 macOS für «Macs»", ""); !slices.Equal(got, []string{"gone\ufffd[2J\ufffd macOS für «Macs»"}) {
		t.Errorf("wrapped %q", got)
	}
	for _, s := range []Screen{{}, {Width: 60}, {Width: 30}} {
		var text strings.Builder
		table := Table{Head: []string{"POD", "WHY"}, Rows: [][]Cell{{{Text: "build"}, {Text: evil}}}}
		if err := table.Write(&text, s); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(text.String(), "\x1b\a\r\u009b") {
			t.Errorf("a table of %d columns writes %q", s.Width, text.String())
		}
	}
}

func TestPaint(t *testing.T) {
	if got := (Screen{}).Paint("x", Bad); got != "x" {
		t.Errorf("without colours: %q", got)
	}
	if got := (Screen{Colour: true}).Paint("x", Bad); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("with colours: %q", got)
	}
}

func TestCleanedKeepsWhatATerminalObeysAway(t *testing.T) {
	var out strings.Builder
	w := Cleaned(&out)
	for _, part := range []string{"a\x1b[2J\tb\n\xc3", "\xbc \xff\r", "\xe2\x82", "\xac\n"} {
		if n, err := io.WriteString(w, part); n != len(part) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if got, want := out.String(), "a\ufffd[2J\tb\n\u00fc \ufffd\ufffd\u20ac\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
