package main

import (
	"fmt"
	"math"
	"strings"
)

type point struct{ x, y float64 }

// panel is one line over time, from zero up.
type panel struct {
	title  string
	points []point
	// peak has the highest value written beside the line, in place of the last one.
	peak bool
}

// chart is panels one below the other, over the same time.
type chart struct {
	panels []panel
	// unit of the time.
	unit string
	// marks are where something began. They are numbered, and named below.
	marks []mark
}

type mark struct {
	x    float64
	name string
}

// Of a panel, in pixels.
const (
	width, height = 640, 96
	left, above   = 56, 26
	right, below  = 72, 14
	// legend is a line of names of marks, of which there are two side by side.
	legend = 16
)

// draw writes a chart as SVG that suits a light and a dark page.
func (c chart) draw() string {
	var b strings.Builder
	bottom := len(c.panels)*height + below
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui,sans-serif" font-size="11">`, width, bottom+(len(c.marks)+1)/2*legend)
	b.WriteString("\n<style>text{fill:#444}path{stroke:#0a66c2;fill:none;stroke-width:1.5}line{stroke:#bbb}@media(prefers-color-scheme:dark){text{fill:#ccc}path{stroke:#6cb2ff}line{stroke:#555}}</style>\n")
	first, last := c.span()
	x := func(at float64) float64 { return left + (at-first)/(last-first)*(width-left-right) }
	c.drawMarks(&b, x, bottom)
	for i, p := range c.panels {
		fmt.Fprintf(&b, `<g transform="translate(0 %d)">`, i*height)
		p.draw(&b, x)
		b.WriteString("</g>\n")
	}
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.0f %s</text>\n</svg>\n", width-right, bottom-3, last-first, c.unit)
	return b.String()
}

// span is the time that all panels are over: from 0, or from the first mark.
func (c chart) span() (first, last float64) {
	if len(c.marks) > 0 {
		first = c.marks[0].x
	}
	for _, p := range c.panels {
		last = max(last, p.points[len(p.points)-1].x)
	}
	return first, last
}

func (c chart) drawMarks(b *strings.Builder, x func(float64) float64, bottom int) {
	for i, m := range c.marks {
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke-dasharray="2 3"/><text x="%.1f" y="%d" font-size="8">%d</text>`,
			x(m.x), x(m.x), above-6, bottom-below, x(m.x)+2, above-2, i+1)
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%d %s</text>\n", left+i%2*(width-left-right)/2, bottom+i/2*legend+legend-4, i+1, m.name)
	}
}

func (p panel) draw(b *strings.Builder, x func(float64) float64) {
	most := p.points[0]
	for _, at := range p.points {
		if at.y > most.y {
			most = at
		}
	}
	top := ceiling(most.y)
	const bottom = height - below
	y := func(value float64) float64 { return bottom - value/top*(bottom-above) }
	fmt.Fprintf(b, `<text x="%d" y="16">%s</text>`, left, p.title)
	for _, mark := range []float64{0, top} {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%g</text>`,
			left, width-right, y(mark), y(mark), left-6, y(mark)+4, mark)
	}
	b.WriteString(`<path d="`)
	for i, at := range p.points {
		fmt.Fprintf(b, "%c%.1f %.1f", "ML"[min(i, 1)], x(at.x), y(at.y))
	}
	last := p.points[len(p.points)-1]
	said, word := last.y, ""
	if p.peak {
		said, word = most.y, "most "
	}
	fmt.Fprintf(b, `"/><text x="%.1f" y="%.1f">%s%.0f</text>`, x(last.x)+6, y(last.y)+4, word, said)
}

// ceiling is the next round number: 1, 2 or 5 times a power of ten.
func ceiling(most float64) float64 {
	if most <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, times := range []float64{1, 2, 5} {
		if most <= times*power {
			return times * power
		}
	}
	return 10 * power
}
