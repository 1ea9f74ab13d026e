package screen

import (
	"io"
	"strings"
)

const (
	gap = "   "
	// leastLast is how much of its last column a table shows at least; on a narrower
	// screen each row becomes a block of lines.
	leastLast = 24
)

// Cell is a word of a row.
type Cell struct {
	Text string
	Mood Mood
}

// Table has a head and rows of as many cells. Its last column may be long.
type Table struct {
	Head []string
	Rows [][]Cell
}

// Write writes the table so that it fits: as it is, with its last column cut, or as a
// block of lines for each row.
func (t Table) Write(out io.Writer, s Screen) error {
	if len(t.Rows) == 0 {
		return nil
	}
	widths := t.widths()
	last := len(widths) - 1
	others := len(gap) * last
	for _, width := range widths[:last] {
		others += width
	}
	var text strings.Builder
	switch room := s.Width - others; {
	case s.Width == 0 || others+widths[last] <= s.Width:
		t.rows(&text, s, widths, 0)
	case room >= leastLast:
		t.rows(&text, s, widths, room)
	default:
		t.blocks(&text, s)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func (t Table) widths() []int {
	widths := make([]int, len(t.Head))
	for i, title := range t.Head {
		widths[i] = runes(title)
	}
	for _, row := range t.Rows {
		for i, cell := range row {
			widths[i] = max(widths[i], runes(cell.Text))
		}
	}
	return widths
}

// rows writes a line a row, the last cell cut to room; 0: not cut.
func (t Table) rows(text *strings.Builder, s Screen, widths []int, room int) {
	head := make([]Cell, len(t.Head))
	for i, title := range t.Head {
		head[i] = Cell{title, Head}
	}
	for _, row := range append([][]Cell{head}, t.Rows...) {
		line, pad := "", ""
		for i, cell := range row {
			shown := cell.Text
			if i == len(row)-1 {
				shown = Cut(shown, room)
			}
			if shown != "" {
				line += pad + s.Paint(shown, cell.Mood)
				pad = ""
			}
			pad += strings.Repeat(" ", widths[i]-min(runes(shown), widths[i])) + gap
		}
		text.WriteString(line + "\n")
	}
}

// blocks writes the first cell of a row whole, since it is a name to be typed, and the
// others below it.
func (t Table) blocks(text *strings.Builder, s Screen) {
	label := 0
	for _, title := range t.Head[1:] {
		label = max(label, runes(title))
	}
	text.WriteString(s.Paint(t.Head[0], Head) + "\n")
	for _, row := range t.Rows {
		text.WriteString(row[0].Text + "\n")
		for i, cell := range row[1:] {
			if cell.Text == "" {
				continue
			}
			indent := strings.Repeat(" ", label+3)
			lines := s.Wrap(cell.Text, indent)
			lines[0] = "  " + t.Head[i+1] + strings.Repeat(" ", label-runes(t.Head[i+1])+1) + s.Paint(strings.TrimPrefix(lines[0], indent), cell.Mood)
			text.WriteString(strings.Join(lines, "\n") + "\n")
		}
	}
}
