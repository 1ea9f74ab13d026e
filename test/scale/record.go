package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// recordName is the file's, without its ending.
const recordName = "scale-run"

// record is what one run measured.
type record struct {
	At          time.Time      `json:"at"`
	TookSeconds float64        `json:"tookSeconds"`
	Commit      string         `json:"commit"`
	Machine     figure.Machine `json:"machine"`
	Asked       asked          `json:"asked"`
	Phases      []phase        `json:"phases"`
	Samples     []sample       `json:"samples"`
}

// asked is what the run was to be like.
type asked struct {
	LatencyMS       int64   `json:"latencyMS"`
	JitterMS        int64   `json:"jitterMS"`
	Faults          float64 `json:"faults"`
	ConvergeSeconds float64 `json:"convergeSeconds"`
	TimeScale       float64 `json:"timeScale"`
	OutageSeconds   float64 `json:"outageSeconds"`
}

// phase is one thing that happened to the fleet.
type phase struct {
	Name  string `json:"name"`
	Hosts int    `json:"hosts"`
	// Begin and End are seconds of the samples.
	Begin float64 `json:"begin"`
	End   float64 `json:"end"`
	Used  usage   `json:"used"`
	// PeakMB and PeakGoroutines are the manager's.
	PeakMB         float64 `json:"peakMB"`
	PeakGoroutines int     `json:"peakGoroutines"`
	// NobodyLedSeconds is how long none of the managers led, where one was ended.
	NobodyLedSeconds float64 `json:"nobodyLedSeconds,omitempty"`
	// Wrong is what was not as promised.
	Wrong []string `json:"wrong,omitempty"`
}

// write puts the record into its file: a line a sample, which are many.
func (r *record) write(path string) error {
	rest := *r
	rest.Samples = nil
	text, err := json.MarshalIndent(rest, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding what was measured: %w", err)
	}
	var b bytes.Buffer
	b.Write(bytes.TrimSuffix(text, []byte("null\n}")))
	b.WriteString("[")
	for i, s := range r.Samples {
		line, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("encoding a sample: %w", err)
		}
		fmt.Fprintf(&b, "%s\n    %s", ","[:min(i, 1)], line)
	}
	b.WriteString("\n  ]\n}\n")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder for what was measured: %w", err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing what was measured: %w", err)
	}
	return nil
}

func readRecord(path string) (*record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a run: %w", err)
	}
	r := &record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("reading the run in %s: %w", path, err)
	}
	return r, nil
}
