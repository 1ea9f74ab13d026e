package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"
)

// Of a picture, in pixels: a column and a row of Grafana's grid, and what a panel keeps clear for its axes, title and legend.
const (
	column, row            = 40, 27
	clearLeft, clearRight  = 50, 12
	clearAbove, clearBelow = 28, 52
	gap                    = 3
	letter                 = 6.2 // of the legend
)

// lineColors suit a light and a dark page.
var lineColors = [...]string{"#3a7bd5", "#4a9c47", "#d9722b", "#9a55c4", "#d33c4f", "#2a9a9a", "#b28a1a", "#7c7f87"}

var thresholdColors = map[string]string{"green": "#4a9c47", "red": "#d33c4f", "orange": "#d9722b", "blue": "#3a7bd5"}

// picture is a dashboard, as SVG, over so many hours.
type picture struct {
	hours  float64
	bottom int
	body   bytes.Buffer
}

func (p *picture) svg(title string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui,sans-serif" font-size="11" role="img" aria-label="%s">`,
		24*column, p.bottom, html.EscapeString(title))
	b.WriteString("\n<style>text{fill:#333}.t{font-weight:600}.s{font-size:26px;text-anchor:middle}.f{fill:none;stroke:#9993}.g{stroke:#9994}" +
		"path{fill:none;stroke-width:1.3}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>\n")
	b.Write(p.body.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// panel draws one where the dashboard has it.
func (p *picture) panel(of panel, lines []line) {
	g := of.GridPos
	p.bottom = max(p.bottom, (g.Y+g.H)*row)
	w, h := float64(g.W*column), float64(g.H*row)
	fmt.Fprintf(&p.body, `<g transform="translate(%d %d)">`, g.X*column, g.Y*row)
	defer p.body.WriteString("</g>\n")
	if of.Type == "row" {
		p.text(4, h-8, "t", of.Title)
		return
	}
	fmt.Fprintf(&p.body, `<rect class="f" x="%d" y="%d" width="%g" height="%g" rx="3"/>`, gap, gap, w-2*gap, h-2*gap)
	p.text(10, 19, "t", of.Title)
	unit := of.FieldConfig.Defaults.Unit
	switch of.Type {
	case "stat":
		p.stat(of, lines, w, h)
	case "table":
		for i, l := range lines {
			p.text(10, float64(clearAbove+16*(i+1)), "", l.name)
			p.text(w/2+60, float64(clearAbove+16*(i+1)), "", format(unit, last(l.values)))
		}
	default:
		p.timeseries(of, lines, w, h)
	}
}

func (p *picture) text(x, y float64, class, text string) {
	fmt.Fprintf(&p.body, `<text x="%g" y="%g"`, x, y)
	if class != "" {
		fmt.Fprintf(&p.body, ` class="%s"`, class)
	}
	fmt.Fprintf(&p.body, ">%s</text>", html.EscapeString(text))
}

// stat is the last value, in the color of the threshold that it has reached.
func (p *picture) stat(of panel, lines []line, w, h float64) {
	value := math.NaN()
	if len(lines) > 0 {
		value = last(lines[0].values)
	}
	color := "#7c7f87"
	for _, step := range of.FieldConfig.Defaults.Thresholds.Steps {
		if step.Value == nil && !math.IsNaN(value) || step.Value != nil && value >= *step.Value {
			color = cmp.Or(thresholdColors[step.Color], color)
		}
	}
	fmt.Fprintf(&p.body, `<text class="s" style="fill:%s" x="%g" y="%g">%s</text>`, color, w/2, h/2+18, format(of.FieldConfig.Defaults.Unit, value))
}

func last(values []float64) float64 {
	for _, v := range slices.Backward(values) {
		if !math.IsNaN(v) {
			return v
		}
	}
	return math.NaN()
}

// timeseries draws lines over the hours, from zero up; those that are stacked on each other.
func (p *picture) timeseries(of panel, lines []line, w, h float64) {
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.name, b.name) })
	below := make([][]float64, len(lines))
	if of.FieldConfig.Defaults.Custom.Stacking.Mode == "normal" {
		below = stacked(lines)
	}
	most := 0.0
	for i, l := range lines {
		for k := range l.values {
			most = max(most, orZero(l.values[k])+at(below[i], k))
		}
	}
	top := ceiling(most)
	x := func(i, of int) float64 { return clearLeft + float64(i)/float64(max(1, of-1))*(w-clearLeft-clearRight) }
	y := func(v float64) float64 { return h - clearBelow - v/top*(h-clearBelow-clearAbove) }
	for _, mark := range []float64{0, top / 2, top} {
		fmt.Fprintf(&p.body, `<path class="g" d="M%d %.1fH%g"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`,
			clearLeft, y(mark), w-clearRight, clearLeft-5, y(mark)+4, format(of.FieldConfig.Defaults.Unit, mark))
	}
	fmt.Fprintf(&p.body, `<text x="%d" y="%g">0 h</text><text x="%g" y="%g" text-anchor="end">%.0f h</text>`,
		clearLeft, h-clearBelow+14, w-clearRight, h-clearBelow+14, p.hours)
	for i, l := range lines {
		p.line(lineColors[i%len(lineColors)], l.values, below[i], x, y)
	}
	p.legend(lines, w, h)
}

// stacked is what lies below each of the lines, when each lies on those before it.
func stacked(lines []line) [][]float64 {
	var below [][]float64
	for i, l := range lines {
		under := make([]float64, len(l.values))
		for k := range under {
			if i > 0 {
				under[k] = below[i-1][k] + orZero(lines[i-1].values[k])
			}
		}
		below = append(below, under)
	}
	return below
}

func at(values []float64, i int) float64 {
	if values == nil {
		return 0
	}
	return values[i]
}

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// line draws one, broken where it has no value. One that is stacked is an area above what lies below it, and has no
// line where it is nothing.
func (p *picture) line(color string, values, below []float64, x func(i, of int) float64, y func(float64) float64) {
	tops := make([]float64, len(values))
	for i, v := range values {
		tops[i] = v + at(below, i)
		if below != nil && v == 0 {
			tops[i] = math.NaN()
		}
	}
	if below != nil {
		p.area(color, values, below, x, y)
	}
	var d strings.Builder
	for i, v := range tops {
		starts := i == 0 || math.IsNaN(tops[i-1])
		if math.IsNaN(v) || !starts && i+1 < len(tops) && tops[i-1] == v && tops[i+1] == v {
			continue // a point on a level line says nothing
		}
		fmt.Fprintf(&d, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[starts], x(i, len(tops)), y(v))
	}
	fmt.Fprintf(&p.body, `<path stroke="%s" d="%s"/>`, color, d.String())
}

// area fills what is between the values and what lies below them.
func (p *picture) area(color string, values, below []float64, x func(i, of int) float64, y func(float64) float64) {
	n := len(values)
	corners := make([]float64, 0, 2*n) // there above, and back below
	for i, v := range values {
		corners = append(corners, orZero(v)+below[i])
	}
	for _, v := range slices.Backward(below) {
		corners = append(corners, v)
	}
	var d strings.Builder
	for i, v := range corners {
		if i > 0 && i+1 < len(corners) && corners[i-1] == v && corners[i+1] == v && i != n-1 && i != n {
			continue
		}
		fmt.Fprintf(&d, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[i == 0], x(min(i, 2*n-1-i), n), y(v))
	}
	fmt.Fprintf(&p.body, `<path style="fill:%s" fill-opacity=".2" d="%sZ"/>`, color, d.String())
}

// legend names as many lines as two rows hold, and says how many more there are.
func (p *picture) legend(lines []line, w, h float64) {
	const left, more = 10.0, 40.0
	x, y := left, h-22
	for i, l := range lines {
		needs := 20 + letter*float64(len([]rune(l.name)))
		second := y > h-20
		if second && x+needs > w-more {
			p.text(w-more+6, y, "", fmt.Sprintf("+ %d", len(lines)-i))
			return
		}
		if x+needs > w && x > left {
			x, y = left, h-9
		}
		fmt.Fprintf(&p.body, `<rect x="%.1f" y="%.1f" width="9" height="3" fill="%s"/>`, x, y-5, lineColors[i%len(lineColors)])
		p.text(math.Round(x+13), y, "", l.name)
		x += needs
	}
}

// format writes a value in Grafana's unit.
func format(unit string, v float64) string {
	switch {
	case math.IsNaN(v):
		return "no data"
	case unit == "bytes":
		return fmt.Sprintf("%.3g MB", v/1e6)
	case unit == "percentunit":
		return fmt.Sprintf("%.3g %%", v*100)
	case unit == "reqps", unit == "ops":
		return fmt.Sprintf("%.3g/s", v)
	case unit == "dateTimeAsIso":
		return time.UnixMilli(int64(v)).UTC().Format("2006-01-02 15:04")
	case unit == "s":
		return seconds(v)
	}
	return fmt.Sprintf("%.4g", v)
}

func seconds(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 1:
		return fmt.Sprintf("%.3g ms", v*1000)
	case v < 600:
		return fmt.Sprintf("%.3g s", v)
	case v < 7200:
		return fmt.Sprintf("%.3g min", v/60)
	}
	return fmt.Sprintf("%.3g h", v/3600)
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
