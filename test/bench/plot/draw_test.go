package main

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	svg := chart{unit: "hours", panels: []panel{
		{title: "flat", points: []point{{0, 40}, {12, 40}, {24, 40}}},
		{title: "grows", points: []point{{0, 0}, {24, 50}}},
	}}.draw()
	wellFormed(t, svg)
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

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
}

// The picture of a day is of the details of its report.
func TestChartOfADay(t *testing.T) {
	c, err := chartOf([]byte(`{"part":"soak","figures":[],"details":{"happened":[],"looks":[
		{"hour":1,"managerMB":98,"agentMB":32,"goroutines":380,"descriptors":14,"vendorCalls":700},
		{"hour":24,"managerMB":100,"agentMB":31,"goroutines":384,"descriptors":15,"vendorCalls":9000}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]point{{{1, 98}, {24, 100}}, {{1, 380}, {24, 384}}, {{1, 14}, {24, 15}}, {{1, 32}, {24, 31}}, {{1, 700}, {24, 9000}}}
	for i, p := range c.panels {
		if !slices.Equal(p.points, want[i]) {
			t.Errorf("%s: %v, want %v", p.title, p.points, want[i])
		}
	}
}

// Of a run of several sizes the largest is drawn, from its first phase on, with rates between two samples.
func TestChartOfAScaleRun(t *testing.T) {
	c, err := chartOf([]byte(`{"at":"2026-11-27T10:00:00Z","phases":[
		{"name":"claims","hosts":10,"begin":0,"end":60},{"name":"claims","hosts":100,"begin":60,"end":120},{"name":"rest","hosts":100,"begin":120,"end":180}],
		"samples":[{"seconds":30,"vendorCalls":1000},{"seconds":60,"vendorCalls":0,"processorSeconds":5},{"seconds":60.2,"vendorCalls":3},
		{"seconds":120,"vendorCalls":600,"processorSeconds":35,"apiReads":90,"apiWrites":30,"running":99},{"seconds":180,"vendorCalls":660,"processorSeconds":35,"apiReads":90,"apiWrites":30,"memoryMB":50}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.marks) != 2 || c.marks[0] != (mark{1, "claims"}) || c.marks[1] != (mark{2, "rest"}) {
		t.Errorf("marks %+v, want those of 100 hosts", c.marks)
	}
	want := map[string][]point{
		"Machines that run":                             {{2, 99}, {3, 0}},
		"managers: processor, % of a core":              {{2, 50}, {3, 0}},
		"manager: resident memory, MB":                  {{2, 0}, {3, 50}},
		"managers: requests to the API server a second": {{2, 2}, {3, 0}},
		"vendor: calls a second":                        {{2, 10}, {3, 1}},
	}
	for _, p := range c.panels {
		if points, asked := want[p.title]; asked && !slices.Equal(p.points, points) {
			t.Errorf("%s: %v, want %v", p.title, p.points, points)
		}
	}
	svg := c.draw()
	wellFormed(t, svg)
	for _, text := range []string{"1 claims", "2 rest", "2 minutes", "most 50"} {
		if !strings.Contains(svg, text) {
			t.Errorf("the picture lacks %q:\n%s", text, svg)
		}
	}
}

func TestALineNeedsTwoLooks(t *testing.T) {
	for _, text := range []string{`{}`, `{"details":{"looks":[{"hour":1}]}}`, `{"samples":[{"seconds":1}]}`} {
		if c, err := chartOf([]byte(text)); err == nil {
			t.Errorf("of %s there is %+v", text, c)
		}
	}
}

func TestCeiling(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 1: 1, 1.1: 2, 40: 50, 51: 100, 381: 500, 1000: 1000} {
		if got := ceiling(most); got != want {
			t.Errorf("ceiling(%g) = %g, want %g", most, got, want)
		}
	}
}
