package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// seconds are written as such.
type seconds float64

// distribution of times, in milliseconds.
type distribution struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50Milliseconds"`
	P99   float64 `json:"p99Milliseconds"`
	Max   float64 `json:"maxMilliseconds"`
}

func distributionOf(times []time.Duration) distribution {
	if len(times) == 0 {
		return distribution{}
	}
	slices.Sort(times)
	at := func(share float64) float64 {
		n := min(len(times)-1, int(share*float64(len(times))))
		return float64(times[n].Microseconds()) / 1000
	}
	return distribution{Count: len(times), P50: at(0.5), P99: at(0.99), Max: at(1)}
}

// figures are everything that one run has measured.
type figures struct {
	At      time.Time `json:"at"`
	CPUs    int       `json:"cpus"`
	Load    string    `json:"loadAtStart"`
	Hosts   int       `json:"hosts"`
	Latency string    `json:"vendorLatency"`
	KubeQPS float64   `json:"kubeAPIQPS"`
	Freed   *freed    `json:"freed,omitempty"`
	Claims  *claims   `json:"claims,omitempty"`
	Peer    *peer     `json:"peer,omitempty"`
	Rest    []quiet   `json:"rest,omitempty"`
	// Verbs are macfleet's.
	Verbs []verbTime `json:"verbs,omitempty"`
}

func newFigures(s settings) *figures {
	return &figures{
		At: time.Now().UTC().Truncate(time.Second), CPUs: runtime.NumCPU(), Load: load(), Hosts: s.hosts,
		Latency: s.latency.String(), KubeQPS: s.kubeQPS,
	}
}

// load is the machine's, where the system tells: others at work spoil times.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

func (f *figures) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what, figure, goal string) { fmt.Fprintf(table, "%s\t%s\t%s\n", what, figure, goal) }
	fmt.Fprintf(out, "%d CPUs, load at the start %s, vendor latency %s\n\n", f.CPUs, f.Load, f.Latency)
	row("FIGURE", "MEASURED", "GOAL")
	if r := f.Freed; r != nil {
		what := fmt.Sprintf("freed host to claim, %d Machines waiting, %d frees", r.Waiting, r.Frees)
		row(what+": p50", ms(r.Times.P50), "")
		row(what+": p99", ms(r.Times.P99), "<= 1 s")
		row(what+": longest", ms(r.Times.Max), "")
		row(what+": API requests a round", fmt.Sprintf("%.0f", r.RequestsAFree), "")
	}
	if c := f.Claims; c != nil {
		what := fmt.Sprintf("%d Machines, %d free hosts", c.Machines, f.Hosts)
		row(what+": all claimed", fmt.Sprintf("%.1f s", c.Claimed), "")
		row(what+": all shown", fmt.Sprintf("%.1f s", c.Shown), "<= 60 s")
		row(what+": vendor calls a host", fmt.Sprintf("%.2f (at most %d)", c.CallsAHost, c.MostCalls), "<= 4")
	}
	if c := f.Claims; c != nil {
		row(fmt.Sprintf("%d Machines, %d free hosts: API requests a claim", c.Machines, f.Hosts),
			fmt.Sprintf("%.0f", float64(c.Requests.sum())/float64(c.Machines)), "")
	}
	if p := f.Peer; p != nil {
		how := "measured"
		if p.Extrapolated {
			how = fmt.Sprintf("from %d in %.0f s", p.Adopted, p.Ran)
		}
		row(fmt.Sprintf("one lock, a list for each adoption, %d Machines, %d hosts", p.Machines, f.Hosts), fmt.Sprintf("%.0f s (%s)", p.Took, how), "peer")
		row("one lock: vendor calls a host", fmt.Sprintf("%.2f", p.CallsAHost), "peer")
		if c := f.Claims; c != nil && c.Shown > 0 {
			row("one lock / ours", fmt.Sprintf("%.0f times", p.Took/c.Shown), "")
		}
	}
	for _, q := range f.Rest {
		row(fmt.Sprintf("vendor calls a minute at rest, %d hosts, %d Machines", f.Hosts, q.Machines),
			fmt.Sprintf("%.1f (%.0f a list: %v)", q.CallsMinute, q.CallsAList, q.Calls), "pages x lists")
	}
	for _, v := range f.Verbs {
		row(fmt.Sprintf("%s, %d hosts and Machines: median of %d", v.Verb, f.Hosts, v.Runs), ms(v.Median), "<= "+ms(v.Goal))
		row("the same: longest", ms(v.Longest), "")
		row("the same: processor", ms(v.Processor), "")
	}
	_ = table.Flush() // to the terminal
}

// printRequests lists who asks the API server what.
func (f *figures) printRequests(out io.Writer) {
	if r := f.Freed; r != nil {
		r.Requests.print(out, "each host freed, claimed and set up", r.Frees)
	}
	if c := f.Claims; c != nil {
		c.Requests.print(out, "each claim", c.Machines)
	}
}

func ms(milliseconds float64) string { return fmt.Sprintf("%.0f ms", milliseconds) }

func (f *figures) write(path string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the figures: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of the figures: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return nil
}
