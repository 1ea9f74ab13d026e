// Command plot draws what `make soak` or `make scale` measured:
// go run ./test/bench/plot bench/soak.json docs/pictures/soak.svg
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want the figures and the picture: plot bench/soak.json docs/pictures/soak.svg")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("reading the figures: %w", err)
	}
	c, err := chartOf(text)
	if err != nil {
		return fmt.Errorf("reading the figures in %s: %w", args[0], err)
	}
	return os.WriteFile(args[1], []byte(c.draw()), 0o600)
}

// chartOf knows the figures by what they have.
func chartOf(text []byte) (chart, error) {
	var both struct {
		Details soak `json:"details"`
		scale
	}
	if err := json.Unmarshal(text, &both); err != nil {
		return chart{}, err
	}
	c := both.Details.chart()
	if len(both.Samples) > 0 {
		c = both.scale.chart()
	}
	if len(c.panels[0].points) < 2 {
		return chart{}, fmt.Errorf("there are %d looks, and a line needs two", len(c.panels[0].points))
	}
	return c, nil
}

// soak is what TestSoak writes as its report's details.
type soak struct {
	Looks []struct {
		Hour        float64 `json:"hour"`
		Manager     float64 `json:"managerMB"`
		Agent       float64 `json:"agentMB"`
		Goroutines  float64 `json:"goroutines"`
		Descriptors float64 `json:"descriptors"`
		VendorCalls float64 `json:"vendorCalls"`
	} `json:"looks"`
}

// chart has the lines of a day, one each.
func (s soak) chart() chart {
	all := []panel{
		{title: "manager: resident memory, MB"},
		{title: "manager: goroutines"},
		{title: "manager: open files"},
		{title: "agent: resident memory, MB, median of the Macs"},
		{title: "vendor: calls since the start"},
	}
	for _, l := range s.Looks {
		for i, y := range []float64{l.Manager, l.Goroutines, l.Descriptors, l.Agent, l.VendorCalls} {
			all[i].points = append(all[i].points, point{l.Hour, y})
		}
	}
	return chart{panels: all, unit: "hours"}
}
