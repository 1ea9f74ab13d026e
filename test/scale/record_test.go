package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// aRun is of two sizes, of which the larger costs as much for each Machine.
func aRun() *record {
	r := &record{Commit: "abc"}
	for i, n := range []int{10, 100} {
		at := float64(100 * i)
		up := usage{Seconds: 30, Processor: float64(n) / 50, Reads: 20 * n, Writes: 5 * n, Calls: 4*n + 7, Lists: 7}
		r.Phases = append(r.Phases,
			phase{Name: phaseStart, Hosts: n, Begin: at, End: at + 10, Used: usage{Seconds: 10}},
			phase{Name: phaseUp, Hosts: n, Begin: at + 10, End: at + 40, Used: up, PeakMB: 60},
			phase{Name: phaseRest, Hosts: n, Begin: at + 40, End: at + 70, Used: usage{Seconds: 30, Reads: 5, Calls: 2, Processor: 0.3}},
		)
		r.Samples = append(r.Samples,
			sample{usage: usage{Seconds: at + 5}, MemoryMB: 20},
			sample{usage: usage{Seconds: at + 10}, MemoryMB: 30},
			sample{usage: usage{Seconds: at + 25}, MemoryMB: 70, Goroutines: 400, counts: counts{Machines: n, Claimed: n}},
			sample{usage: usage{Seconds: at + 60}, MemoryMB: 50, Goroutines: 300, counts: counts{Machines: n, Claimed: n}},
		)
	}
	r.Phases = append(r.Phases, phase{Name: "leader killed", Hosts: 100, Begin: 170, End: 180, NobodyLedSeconds: 15.3, Wrong: []string{"all"}})
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
		"| all claimed, s | 15 | 15 |\n",
		"| memory without Machines, MB | 30 | 30 |\n",
		"| memory at rest with all, MB | 50 | 50 |\n",
		"| most memory until then, MB | 70 | 70 |\n",
		"| most goroutines until then | 400 | 400 |\n",
		"| all released, wiped and free, s | | |\n",
	} {
		if !strings.Contains(costs, want) {
			t.Errorf("the table of costs lacks %q:\n%s", want, costs)
		}
	}
	phases := r.phaseTable()
	if got := strings.Count(phases, "\n"); got != 6 || !strings.Contains(phases, "| 4 leader killed |") || !strings.Contains(phases, "| 15.3 s | 1 |") {
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

// The book's tables of a large fleet are those of the run that is committed: go run ./test/scale -table FILE prints them.
func TestTheBooksTablesAreOfTheCommittedRun(t *testing.T) {
	book := filepath.Join("..", "..", "docs")
	r, err := readRecord(filepath.Join(book, "figures", recordName+".json"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(book, "figures.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{r.costTable(), r.phaseTable()} {
		if !strings.Contains(string(page), "\n\n"+table+"\n") {
			t.Errorf("docs/figures.md has another table than docs/figures/%s.json:\n%s", recordName, table)
		}
	}
}
