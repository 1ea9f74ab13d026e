package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// times of one thing, in milliseconds.
type times struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50Milliseconds"`
	P99   float64 `json:"p99Milliseconds"`
	Max   float64 `json:"maxMilliseconds"`
}

func timesOf(list []time.Duration) times {
	if len(list) == 0 {
		return times{}
	}
	slices.Sort(list)
	at := func(share float64) float64 {
		return float64(list[min(len(list)-1, int(share*float64(len(list))))].Microseconds()) / 1000
	}
	return times{Count: len(list), P50: at(0.5), P99: at(0.99), Max: at(1)}
}

// figures of one run.
type figures struct {
	At   time.Time `json:"at"`
	CPUs int       `json:"cpus"`
	Load string    `json:"loadAtStart"`
	// SeenToClone is from the Pod seen by a watcher to the start of tart clone.
	SeenToClone times `json:"seenToClone"`
	// RunToReady is from the start of tart run to the Ready condition seen.
	RunToReady times `json:"runToReady"`
	// EndToGone is from the end of tart run to the Pod's object seen gone.
	EndToGone times `json:"endToGone"`
	// DeleteToGone is the whole deletion, of Pods with 30 s of grace.
	DeleteToGone times `json:"deleteToGone"`
	Idle         idle  `json:"idle"`
	// AdoptMilliseconds is from the start of an agent to the second machine adopted.
	AdoptMilliseconds float64 `json:"adoptMilliseconds"`
}

// idle is an agent with two Pods and ten images at rest.
type idle struct {
	Seconds           float64 `json:"seconds"`
	RSSBytes          int64   `json:"rssBytes"`
	ShimRSSBytes      int64   `json:"shimRSSBytes"`
	CPUPercent        float64 `json:"cpuPercentOfACore"`
	RequestsPerSecond float64 `json:"requestsPerSecond"`
	Requests          map[string]int
}

func newFigures() *figures {
	f := &figures{At: time.Now().UTC().Truncate(time.Second), CPUs: runtime.NumCPU(), Load: "unknown"}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		f.Load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	return f
}

func (f *figures) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what, figure, goal string) { fmt.Fprintf(table, "%s\t%s\t%s\n", what, figure, goal) }
	fmt.Fprintf(out, "%d CPUs, load at the start %s\n\n", f.CPUs, f.Load)
	row("FIGURE", "MEASURED", "GOAL")
	for _, t := range []struct {
		what, goal string
		times
	}{
		{"Pod seen to clone spawned", "p99 <= 30 ms", f.SeenToClone},
		{"run spawned to Ready seen", "p99 <= 100 ms", f.RunToReady},
		{"lock dropped to Pod gone", "p99 <= 200 ms", f.EndToGone},
		{"deletion, grace 30 s", "", f.DeleteToGone},
	} {
		row(fmt.Sprintf("%s, %d Pods", t.what, t.Count), fmt.Sprintf("p50 %.0f ms, p99 %.0f ms, max %.0f ms", t.P50, t.P99, t.Max), t.goal)
	}
	at := fmt.Sprintf("at rest for %.0f s: ", f.Idle.Seconds)
	row(at+"memory", fmt.Sprintf("%.1f MB", float64(f.Idle.RSSBytes)/1e6), "<= 40 MB")
	row(at+"memory of a shim", fmt.Sprintf("%.1f MB", float64(f.Idle.ShimRSSBytes)/1e6), "")
	row(at+"CPU", fmt.Sprintf("%.3f %% of a core", f.Idle.CPUPercent), "<= 0.1 %")
	row(at+"requests", fmt.Sprintf("%.3f /s", f.Idle.RequestsPerSecond), "<= 0.112 /s")
	row("restart with two guests and ten images: all adopted", fmt.Sprintf("%.0f ms", f.AdoptMilliseconds), "<= 1 s")
	_ = table.Flush() // to the terminal
}
