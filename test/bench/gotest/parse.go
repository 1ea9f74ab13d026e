package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// row is one figure, and what go test calls it.
type row struct {
	// of is the package below the module's root, and the benchmark without its prefix, or the test.
	of, metric string
	name, unit string
	// times turns the metric into the unit.
	times float64
	goals []figure.Goal
}

// figuresOf are the figures of what go test said. One that is missing is an error.
func figuresOf(text string, rows []row) ([]figure.Figure, error) {
	values := measured(text)
	var all []figure.Figure
	for _, r := range rows {
		of := values[r.of+" "+r.metric]
		if len(of) == 0 {
			return nil, fmt.Errorf("go test tells no %s of %s", r.metric, r.of)
		}
		for i := range of {
			of[i] *= r.times
		}
		all = append(all, figure.New(r.name, r.unit, figure.Of(of...), r.goals...))
	}
	return all, nil
}

const module = "github.com/macfleet/macfleet/"

// measured are all values by package, benchmark or test, and metric, in the order of their runs. A line of
// a benchmark has its name, the number of turns, and pairs of a value and a metric; of a test, the last
// value before the metric counts.
func measured(text string) map[string][]float64 {
	values := map[string][]float64{}
	pkg, test := "", ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "pkg:" && len(words) == 2:
			pkg = strings.TrimPrefix(words[1], module)
		case len(words) == 3 && words[1] == "RUN":
			test = words[2]
		case strings.HasPrefix(words[0], "Benchmark") && len(words) > 2:
			name, _, _ := strings.Cut(strings.TrimPrefix(words[0], "Benchmark"), "-")
			pairs(values, pkg+" "+name+" ", words[2:])
		case test != "":
			pairs(values, "test/schedule "+test+" ", words[max(0, len(words)-2):])
		}
	}
	return values
}

// pairs are values and their metrics, in turn.
func pairs(into map[string][]float64, prefix string, words []string) {
	for i := 0; i+1 < len(words); i += 2 {
		if value, err := strconv.ParseFloat(words[i], 64); err == nil {
			into[prefix+words[i+1]] = append(into[prefix+words[i+1]], value)
		}
	}
}
