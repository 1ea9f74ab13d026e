package main

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	svg := draw([]panel{
		{title: "flat", points: []point{{0, 40}, {12, 40}, {24, 40}}},
		{title: "grows", points: []point{{0, 0}, {24, 50}}},
	})
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	var paths []string
	for _, m := range regexp.MustCompile(`<path d="([^"]*)"`).FindAllStringSubmatch(svg, -1) {
		paths = append(paths, m[1])
	}
	// From the left edge to the right one; 40 of 50 high, and from the bottom to the top.
	want := []string{"M56.0 37.2L312.0 37.2L568.0 37.2", "M56.0 82.0L568.0 26.0"}
	if strings.Join(paths, " ") != strings.Join(want, " ") {
		t.Errorf("lines %q, want %q", paths, want)
	}
}

func TestCeiling(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 1: 1, 1.1: 2, 40: 50, 51: 100, 381: 500, 1000: 1000} {
		if got := ceiling(most); got != want {
			t.Errorf("ceiling(%g) = %g, want %g", most, got, want)
		}
	}
}
