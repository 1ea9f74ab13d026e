// Package figure is the one shape of what benches measure: a figure with its spread, the same of
// the peer that was measured beside it, what is asked of it, and the machine that it was measured on.
// A bench makes a Report of them, which is printed as a table, written as JSON, and read again
// for the book's page of figures. What is measured, and how, is the benches' own.
package figure

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Sample is a number of values of one thing, in the unit of its figure.
type Sample struct {
	Count  int     `json:"count"`
	Median float64 `json:"median"`
	// P25 and P75 are the quartiles, between which is half of all.
	P25 float64 `json:"p25"`
	P75 float64 `json:"p75"`
	P99 float64 `json:"p99"`
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Of is the sample of some values; none make one of nothing.
func Of[T ~int | ~int64 | ~float64](values ...T) Sample {
	if len(values) == 0 {
		return Sample{}
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 {
		return rounded(float64(sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]), 6)
	}
	return Sample{Count: len(sorted), Median: at(0.5), P25: at(0.25), P75: at(0.75), P99: at(0.99), Min: at(0), Max: at(1)}
}

// Milliseconds is the sample of some times.
func Milliseconds(times []time.Duration) Sample { return ofTimes(times, time.Millisecond) }

// Seconds is the sample of some times.
func Seconds(times ...time.Duration) Sample { return ofTimes(times, time.Second) }

func ofTimes(times []time.Duration, unit time.Duration) Sample {
	values := make([]float64, len(times))
	for i, t := range times {
		values[i] = float64(t) / float64(unit)
	}
	return Of(values...)
}

// Ratios are those of one value to the other, pair by pair. A pair whose second is
// nothing has none.
func Ratios[T ~int | ~int64 | ~float64](measured, peer []T) Sample {
	var ratios []float64
	for i := range min(len(measured), len(peer)) {
		if peer[i] != 0 {
			ratios = append(ratios, float64(measured[i])/float64(peer[i]))
		}
	}
	return Of(ratios...)
}

// Statistic is what a goal compares of a sample.
type Statistic string

// The statistics. The zero value is the median.
const (
	Median  Statistic = ""
	P99     Statistic = "p99"
	Longest Statistic = "max"
)

func (s Sample) get(what Statistic) float64 {
	switch what {
	case P99:
		return s.P99
	case Longest:
		return s.Max
	}
	return s.Median
}

// rounded leaves so many digits that say something.
func rounded(value, digits float64) float64 {
	if value == 0 || math.IsInf(value, 0) || math.IsNaN(value) {
		return value
	}
	scale := math.Pow(10, digits-1-math.Floor(math.Log10(math.Abs(value))))
	return math.Round(value*scale) / scale
}

// number writes a value with three digits that say something, and a whole one whole.
func number(value float64) string {
	size := math.Abs(value)
	switch {
	case size >= 100 || value == math.Trunc(value):
		return fmt.Sprintf("%.0f", value)
	case size >= 10:
		return fmt.Sprintf("%.1f", value)
	case size >= 1:
		return fmt.Sprintf("%.2f", value)
	}
	return fmt.Sprintf("%.2g", value)
}
