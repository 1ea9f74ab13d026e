package main

import (
	"testing"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// said is what go test says of two benchmarks, twice each, and of a test.
const said = `goos: linux
pkg: github.com/macfleet/macfleet/internal/host
cpu: Some CPU @ 2.00GHz
BenchmarkChoose-2   	   10000	    110000 ns/op	       0 B/op
BenchmarkChoose-2   	   10000	    130000 ns/op	       0 B/op
PASS
ok  	github.com/macfleet/macfleet/internal/host	2.5s
pkg: github.com/macfleet/macfleet/internal/controller/host
BenchmarkNoOp-2     	    5000	    230000 ns/op	   1600000 p99-ns/op
PASS
=== RUN   TestSchedules
    schedule_test.go:107: seeds 1 to 500: 80000 steps in 10s, 8000 steps/s
--- PASS: TestSchedules (10.00s)
`

func TestFiguresOfWhatGoTestSays(t *testing.T) {
	all, err := figuresOf(said, []row{
		{of: "internal/host Choose", metric: "ns/op", name: "choose", unit: "ms", times: 1e-6},
		{of: "internal/controller/host NoOp", metric: "p99-ns/op", name: "no-op", unit: "ms", times: 1e-6, goals: []figure.Goal{figure.AtMost(1)}},
		{of: "test/schedule TestSchedules", metric: "steps/s", name: "steps", times: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		count       int
		median, max float64
		missed      bool
	}{{2, 0.13, 0.13, false}, {1, 1.6, 1.6, true}, {1, 8000, 8000, false}} {
		if got := all[i]; got.Measured.Count != want.count || got.Measured.Median != want.median || got.Measured.Max != want.max || got.Missed() != want.missed {
			t.Errorf("%s: %+v, want %+v", got.Name, got, want)
		}
	}
}

func TestAFigureThatIsMissingIsAnError(t *testing.T) {
	if all, err := figuresOf(said, []row{{of: "internal/host Choose", metric: "p99-ns/op", times: 1}}); err == nil {
		t.Errorf("%+v", all)
	}
}
