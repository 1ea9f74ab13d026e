package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// aRun is of two sizes, of which the larger costs twice as much.
func aRun() *record {
	r := &record{Commit: "abc", Samples: []sample{{usage: usage{Seconds: 1, Calls: 5}, counts: counts{Machines: 3}, MemoryMB: 40}, {usage: usage{Seconds: 2}}}}
	for _, n := range []int{10, 100} {
		up := usage{Seconds: 3, Processor: float64(n) / 50, Reads: 20 * n, Writes: 5 * n, Calls: 4*n + 7, Lists: 7}
		r.Costs = append(r.Costs, cost{Hosts: n, Up: up, Rest: usage{Seconds: 30, Reads: 5, Calls: 2, Processor: 0.3}, RestMB: 50})
		r.Phases = append(r.Phases, phase{Name: "claims", Hosts: n, Used: up, PeakMB: 60})
	}
	r.Phases = append(r.Phases, phase{Name: "leader killed", Hosts: 100, NobodyLedSeconds: 15.3, Wrong: []string{"all"}})
	return r
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "scale-run.json")
	want := aRun()
	if err := want.write(path); err != nil {
		t.Fatal(err)
	}
	got, err := readRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	// What reads all files of figures passes over this one.
	if r, err := figure.Read(path); err != nil || r.Part != "" || len(r.Figures) > 0 {
		t.Errorf("as a report of figures it is %+v, %v", r, err)
	}
}

func TestARunWithoutSamplesIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scale-run.json")
	if err := (&record{}).write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecord(path); err != nil {
		t.Error(err)
	}
}

func TestTables(t *testing.T) {
	r := aRun()
	costs := r.costTable()
	for _, want := range []string{
		"| hosts and Machines | 10 | 100 |\n",
		"| processor for each Machine that comes up, ms | 20 | 20 |\n",
		"| requests to the API server for each that comes up | 25 | 25 |\n",
		"| vendor calls for each that comes up, but lists | 4 | 4 |\n",
		"| at rest: requests to the API server a minute | 10 | 10 |\n",
		"| at rest: processor, % of a core | 1 | 1 |\n",
	} {
		if !strings.Contains(costs, want) {
			t.Errorf("the table of costs lacks %q:\n%s", want, costs)
		}
	}
	phases := r.phaseTable()
	if got := strings.Count(phases, "\n"); got != 4 || !strings.Contains(phases, "| 2 leader killed |") || !strings.Contains(phases, "| 15.3 s | 1 |") {
		t.Errorf("the table of phases has %d lines:\n%s", got, phases)
	}
}

func TestMetricsAreRead(t *testing.T) {
	got, err := parseMetrics(strings.NewReader(`# HELP go_goroutines Number of goroutines that currently exist.
# TYPE go_goroutines gauge
go_goroutines 381
leader_election_master_status{name="macfleet-manager"} 1
rest_client_requests_total{code="200",host="127.0.0.1:6443",method="GET"} 40
rest_client_requests_total{code="404",host="127.0.0.1:6443",method="GET"} 2
rest_client_requests_total{code="200",host="127.0.0.1:6443",method="PATCH"} 7
rest_client_requests_total{code="201",host="127.0.0.1:6443",method="POST"} 1.2e+01
`))
	if want := (told{reads: 42, writes: 19, goroutines: 381, leads: true}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestFlags(t *testing.T) {
	s, err := parse([]string{"-sizes", "4,20"})
	if err != nil || len(s.sizes) != 2 || s.sizes[1] != 20 {
		t.Errorf("%v, %v", s.sizes, err)
	}
	for _, wrong := range []string{"", "3", "ten", "20,10"} {
		if _, err := parse([]string{"-sizes", wrong}); err == nil {
			t.Errorf("-sizes %q is taken", wrong)
		}
	}
}
