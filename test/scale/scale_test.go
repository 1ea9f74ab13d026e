package main

import (
	"path/filepath"
	"testing"

	"github.com/macfleet/macfleet/test/parttest"
)

// TestAFewHosts runs all that `make scale` does to a thousand hosts, with eight.
func TestAFewHosts(t *testing.T) {
	parttest.Skip(t)
	folder := t.TempDir()
	err := run(t.Context(), []string{
		"-sizes", "4,8", "-folder", folder, "-latency", "20ms", "-jitter", "10ms", "-faults", "0.05", "-converge", "200ms",
		"-time-scale", "300", "-inventory", "3s", "-outage", "10s", "-rest", "5s", "-every", "1s", "-patience", "10m",
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := readRecord(filepath.Join(folder, recordName+".json"))
	if err != nil {
		t.Fatal(err)
	}
	costs := r.costs()
	if len(costs) != 2 || costs[1].hosts != 8 || len(r.largest()) != 10 {
		t.Errorf("%d sizes, and %d phases of the largest", len(costs), len(r.largest()))
	}
	for _, c := range costs {
		// What comes up is claimed, renamed, read and pushed to, once at least.
		if c.up.Reads < c.hosts || c.up.Writes < c.hosts || c.up.acts() < float64(c.hosts) || c.up.Pushes < c.hosts || c.restMB <= 0 || c.restGoroutines <= 0 || c.up.Processor <= 0 {
			t.Errorf("%d hosts cost %+v", c.hosts, c)
		}
	}
	led := 0
	for _, p := range r.Phases {
		if p.NobodyLedSeconds > 0 {
			led++
		}
	}
	if led != 2 {
		t.Errorf("in %d phases a manager was killed, want 2", led)
	}
	most := 0
	for _, s := range r.Samples {
		most = max(most, s.Running)
	}
	if most != 8 {
		t.Errorf("of %d samples the one with most Machines that run has %d, want 8", len(r.Samples), most)
	}
}
