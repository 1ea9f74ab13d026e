// Package screen is how the operator's verbs write for people: tables that fit, prose that
// is broken between words, and colours where there is a terminal. What is written is
// decided elsewhere.
package screen

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// narrowest is the width below which nothing is broken any more.
const narrowest = 20

// Screen is where something is written to.
type Screen struct {
	// Width in characters; 0: any, as of a pipe.
	Width int
	// Colour is for terminals.
	Colour bool
	// Terminal: a person may be asked, and the screen can be drawn again.
	Terminal bool
}

// Of says what out is. NO_COLOR and TERM=dumb are heeded.
func Of(out io.Writer, getenv func(string) string) Screen {
	file, is := out.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) {
		return Screen{}
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		width = 80 // a terminal that does not say
	}
	return Screen{
		Width:    max(width, narrowest),
		Colour:   getenv("NO_COLOR") == "" && getenv("TERM") != "dumb",
		Terminal: true,
	}
}

// Mood is what a cell wants to be noticed for.
type Mood int

// The moods.
const (
	Plain Mood = iota
	Good
	Busy
	Bad
	Head
)

// Clean is a text without what a terminal obeys. A guest's last words reach an operator's
// screen, in the status of its Pod: they must neither clear it nor forge lines.
func Clean(text string) string {
	return strings.Map(printable, text)
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}

// Cleaned passes on what is written to it as Clean leaves it, but for ends of lines and tabs. A
// rune whose end is written later comes with that.
func Cleaned(w io.Writer) io.Writer { return &cleaned{to: w} }

type cleaned struct {
	to      io.Writer
	partial []byte
}

// Write implements io.Writer.
func (c *cleaned) Write(data []byte) (int, error) {
	text := slices.Concat(c.partial, data)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if start := len(text) - back; utf8.RuneStart(text[start]) {
			if !utf8.FullRune(text[start:]) {
				whole = start
			}
			break
		}
	}
	c.partial = bytes.Clone(text[whole:])
	_, err := io.WriteString(c.to, strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printable(r)
	}, string(text[:whole])))
	return len(data), err
}

// Paint colours a text, where there are colours, and cleans it everywhere.
func (s Screen) Paint(text string, mood Mood) string {
	text = Clean(text)
	codes := map[Mood]string{Good: "32", Busy: "33", Bad: "31", Head: "1"}
	code, painted := codes[mood]
	if !s.Colour || !painted || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// OneLine puts a text on one line, with one space between its words.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Cut shortens a text to a width, where there is one.
func Cut(text string, width int) string {
	if runes := []rune(text); width > 0 && len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

// Wrap breaks a text between words, each line behind the indent, and cleans it.
func (s Screen) Wrap(text, indent string) []string {
	width := s.Width - runes(indent)
	if s.Width == 0 {
		width = 100
	}
	width = max(width, narrowest)
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		word = Clean(word)
		if line != "" && runes(line)+1+runes(word) > width {
			lines = append(lines, indent+line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, indent+line)
}

func runes(text string) int { return len([]rune(text)) }
