package main

import (
	"fmt"
	"math"
	"strings"
)

type point struct{ x, y float64 }

// panel is one line over the hours, from zero up.
type panel struct {
	title  string
	points []point
}

// Of a panel, in pixels.
const (
	width, height = 640, 96
	left, above   = 56, 26
	right, below  = 72, 14
)

// draw puts the panels one below the other, over the same hours, as SVG that suits a light and a dark page.
func draw(panels []panel) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui,sans-serif" font-size="11">`, width, len(panels)*height+below)
	b.WriteString("\n<style>text{fill:#444}path{stroke:#0a66c2;fill:none;stroke-width:1.5}line{stroke:#bbb}@media(prefers-color-scheme:dark){text{fill:#ccc}path{stroke:#6cb2ff}line{stroke:#555}}</style>\n")
	hours := 0.0
	for _, p := range panels {
		hours = max(hours, p.points[len(p.points)-1].x)
	}
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(0 %d)">`, i*height)
		p.draw(&b, hours)
		b.WriteString("</g>\n")
	}
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.0f hours</text>\n</svg>\n", width-right, len(panels)*height+below-3, hours)
	return b.String()
}

func (p panel) draw(b *strings.Builder, hours float64) {
	most := 0.0
	for _, at := range p.points {
		most = max(most, at.y)
	}
	top := ceiling(most)
	const bottom = height - below
	x := func(hour float64) float64 { return left + hour/hours*(width-left-right) }
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
	fmt.Fprintf(b, `"/><text x="%.1f" y="%.1f">%.0f</text>`, x(last.x)+6, y(last.y)+4, last.y)
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
