package figure

import (
	"fmt"
	"strconv"
	"strings"
)

// Figure is one thing that is measured.
type Figure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Measured is ours, Peer what it was measured beside in the same run.
	Measured Sample  `json:"measured"`
	Peer     *Sample `json:"peer,omitempty"`
	// Ratio is ours by the peer's, pair by pair.
	Ratio *Sample `json:"ratio,omitempty"`
	Goals []Goal  `json:"goals,omitempty"`
}

// Goal is what is asked of a figure.
type Goal struct {
	Of Statistic `json:"of,omitempty"`
	// AtLeast: Limit is the lower one.
	AtLeast bool    `json:"atLeast,omitempty"`
	Limit   float64 `json:"limit"`
	// Times: the limit is so many times the peer's figure.
	Times bool `json:"times,omitempty"`
	// Bar: it stands for a goal that cannot be met, and is kept or broken.
	Bar bool `json:"bar,omitempty"`
	// Met is whether the figure does.
	Met bool `json:"met"`
}

// AtMost asks for no more than a limit.
func AtMost(limit float64) Goal { return Goal{Limit: limit} }

// AtLeast asks for no less.
func AtLeast(limit float64) Goal { return Goal{Limit: limit, AtLeast: true} }

// AtMostTimes asks for no more than so many times the peer's.
func AtMostTimes(limit float64) Goal { return Goal{Limit: limit, Times: true} }

// AtLeastTimes asks for no less.
func AtLeastTimes(limit float64) Goal { return Goal{Limit: limit, Times: true, AtLeast: true} }

// On asks the same of another statistic than the median. Ratios are judged by their median alone.
func (g Goal) On(what Statistic) Goal {
	g.Of = what
	return g
}

// AsBar makes it a bar.
func (g Goal) AsBar() Goal {
	g.Bar = true
	return g
}

// New is a figure of ours alone.
func New(name, unit string, measured Sample, goals ...Goal) Figure {
	return Figure{Name: name, Unit: unit, Measured: measured}.judged(goals)
}

// Beside is a figure with that of the peer. The ratio is theirs pair by pair; where the two do
// not come in pairs, let it be the zero value: it is then that of the medians.
func Beside(name, unit string, measured, peer, ratio Sample, goals ...Goal) Figure {
	if ratio.Count == 0 && peer.Median != 0 {
		ratio = Of(measured.Median / peer.Median)
	}
	f := Figure{Name: name, Unit: unit, Measured: measured, Peer: &peer}
	if ratio.Count > 0 {
		f.Ratio = &ratio
	}
	return f.judged(goals)
}

func (f Figure) judged(goals []Goal) Figure {
	for _, g := range goals {
		g.Met = f.meets(g)
		f.Goals = append(f.Goals, g)
	}
	return f
}

// meets is false of a goal that compares with a peer that has no figure.
func (f Figure) meets(g Goal) bool {
	value := f.Measured.get(g.Of)
	if g.Times {
		if f.Ratio == nil {
			return false
		}
		value = f.Ratio.Median
	}
	if g.AtLeast {
		return value >= g.Limit
	}
	return value <= g.Limit
}

// Missed is whether a goal of the figure is not met. A broken bar is one, too.
func (f Figure) Missed() bool {
	for _, g := range f.Goals {
		if !g.Met {
			return true
		}
	}
	return false
}

func (g Goal) String() string {
	words := []string{"at most", strconv.FormatFloat(rounded(g.Limit, 3), 'g', -1, 64)}
	if g.AtLeast {
		words[0] = "at least"
	}
	if g.Times {
		words = append(words, "×")
	}
	if g.Of != Median {
		words = append([]string{g.Of.word()}, words...)
	}
	return strings.Join(words, " ")
}

func (what Statistic) word() string {
	if what == Longest {
		return "longest"
	}
	return string(what)
}

// verdict of a goal in a word.
func (g Goal) verdict() string {
	switch {
	case g.Bar && g.Met:
		return "kept"
	case g.Bar:
		return "broken"
	case g.Met:
		return "met"
	}
	return "missed"
}

// asked is what is asked of the figure, and whether it does it.
func (f Figure) asked() string {
	var all []string
	for _, g := range f.Goals {
		all = append(all, fmt.Sprintf("%s: %s", g, g.verdict()))
	}
	return strings.Join(all, "; ")
}

// told writes a sample with its spread, and those statistics that a goal is about.
func (s Sample) told(unit string, goals []Goal) string {
	text := number(s.Median)
	if s.Count > 1 {
		text += fmt.Sprintf(" (%s to %s)", number(s.P25), number(s.P75))
	}
	for _, what := range []Statistic{P99, Longest} {
		for _, g := range goals {
			if g.Of == what {
				text += fmt.Sprintf(", %s %s", what.word(), number(s.get(what)))
				break
			}
		}
	}
	return strings.TrimSpace(text + " " + unit)
}
