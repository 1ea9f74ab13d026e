package main

import (
	"fmt"
	"time"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// measured is everything that one run has measured.
type measured struct {
	// seenToClone is from the Pod seen by a watcher to the start of tart clone.
	seenToClone []time.Duration
	// runToReady is from the start of tart run to the Ready condition seen.
	runToReady []time.Duration
	// endToGone is from the end of tart run to the Pod's object seen gone.
	endToGone []time.Duration
	// deleteToGone is the whole deletion, of Pods with 30 s of grace.
	deleteToGone []time.Duration
	idle         idle
	// containerdShim is the resident memory of containerd's, in bytes; 0: there is none here.
	containerdShim int64
	// adopt is from the start of an agent to the second machine adopted.
	adopt time.Duration
}

// idle is an agent with two Pods and ten images at rest.
type idle struct {
	took              time.Duration
	rss               int64
	shimRSS           []int64
	cpuPercent        float64
	requestsPerSecond float64
	requests          map[string]int
}

// tell puts into a report what was measured.
func (m *measured) tell(r *figure.Report) {
	r.Settings = fmt.Sprintf("%d Pods, at rest for %.0f s", len(m.seenToClone), m.idle.took.Seconds())
	r.Details = map[string]any{"requestsAtRest": m.idle.requests}
	r.Add(
		figure.New("Pod seen to clone spawned", "ms", figure.Milliseconds(m.seenToClone), figure.AtMost(30).On(figure.P99)),
		figure.New("tart run spawned to Pod Ready seen", "ms", figure.Milliseconds(m.runToReady), figure.AtMost(100).On(figure.P99)),
		figure.New("lock of the VM dropped to Pod gone", "ms", figure.Milliseconds(m.endToGone), figure.AtMost(200).On(figure.P99)),
		figure.New("deletion with a grace of 30 s", "ms", figure.Milliseconds(m.deleteToGone)),
		figure.New("agent at rest: memory", "MB", figure.Of(float64(m.idle.rss)/1e6), figure.AtMost(30)),
		figure.New("agent at rest: processor", "% of a core", figure.Of(m.idle.cpuPercent), figure.AtMost(0.1)),
		figure.New("agent at rest: requests", "a second", figure.Of(m.idle.requestsPerSecond), figure.AtMost(0.112)),
		m.shim(),
		figure.New("restart with two guests and ten images: both adopted", "ms", figure.Milliseconds([]time.Duration{m.adopt}), figure.AtMost(1000)),
	)
}

// shim is ours beside containerd's, where that is at hand.
func (m *measured) shim() figure.Figure {
	const name = "memory of a shim"
	ours, goal := megabytes(m.idle.shimRSS), figure.AtMost(12)
	if m.containerdShim == 0 {
		return figure.New(name, "MB", ours, goal)
	}
	return figure.Beside(name, "MB", ours, megabytes([]int64{m.containerdShim}), figure.Sample{}, goal)
}

func megabytes(bytes []int64) figure.Sample {
	values := make([]float64, len(bytes))
	for i, b := range bytes {
		values[i] = float64(b) / 1e6
	}
	return figure.Of(values...)
}
