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

// measured is everything that one run has measured. Times are those of each, rates in MB a second.
type measured struct {
	Settings                   string
	CreateToRunning, EndToGone pair[[]time.Duration]
	FirstByte, Line            pair[[]time.Duration]
	Down, Up                   pair[float64]
	Lost, Burst                pair[float64]
	Memory, CPU, Requests      pair[float64]
	AgentBytes                 int64
}

func (s settings) told() string {
	return fmt.Sprintf("%d Pods, %d commands, %d lines, %d commands at once, %d MB, at rest for %s", s.pods, s.execs, s.lines, s.burst, s.megabytes, s.idle)
}

// goal is what is asked of the Mac; the zero value asks for nothing.
type goal struct {
	// times: the limit is so many times the kubelet's figure. atLeast: it is the lower one.
	times, atLeast bool
	limit          float64
	set            bool
}

func atMost(limit float64) goal      { return goal{limit: limit, set: true} }
func atMostTimes(limit float64) goal { return goal{limit: limit, times: true, set: true} }
func atLeastTimes(limit float64) goal {
	return goal{limit: limit, times: true, atLeast: true, set: true}
}

func (g goal) String() string {
	switch {
	case !g.set:
		return ""
	case g.times && g.atLeast:
		return fmt.Sprintf(">= %g x", g.limit)
	case g.times:
		return fmt.Sprintf("<= %g x", g.limit)
	case g.atLeast:
		return fmt.Sprintf(">= %g", g.limit)
	}
	return fmt.Sprintf("<= %g", g.limit)
}

// metBy compares, and is true of a goal that asks for nothing.
func (g goal) metBy(kubelet, mac float64) bool {
	limit := g.limit
	if g.times {
		limit *= kubelet
	}
	if g.atLeast {
		return mac >= limit
	}
	return !g.set || mac <= limit
}

// What a person is to feel nothing of, on a quiet machine: see docs/adr/0040-what-a-vm-takes-is-measured-in-what-is-felt.md. A goal that counts
// from a kubelet's figure says how far a VM is from a process; these say whether that matters.
var (
	execBar = atMost(50)  // ms
	lineBar = atMost(5)   // ms
	runBar  = atMost(250) // ms
	portBar = goal{limit: 25, atLeast: true, set: true}
)

// figure is a row of the table.
type figure struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Kubelet float64 `json:"kubelet,omitempty"`
	Mac     float64 `json:"mac"`
	// Ratio is the Mac's by the kubelet's.
	Ratio float64 `json:"ratio,omitempty"`
	Goal  string  `json:"goal,omitempty"`
	Met   bool    `json:"met"`
	// Bar is the limit of what a person notices, in the figure's unit.
	Bar  string `json:"bar,omitempty"`
	Kept bool   `json:"kept"`
	// alone: the kubelet has none.
	alone bool
}

func figureOf(name, unit string, of pair[float64], g, bar goal) figure {
	f := figure{
		Name: name, Unit: unit, Kubelet: of.Kubelet, Mac: of.Mac,
		Goal: g.String(), Met: g.metBy(of.Kubelet, of.Mac), Bar: bar.String(), Kept: bar.metBy(of.Kubelet, of.Mac),
	}
	if of.Kubelet > 0 {
		f.Ratio = of.Mac / of.Kubelet
	}
	return f
}

// medians are two rows: the median, of which something is asked, and the longest.
func medians(name string, of pair[[]time.Duration], g, bar goal) []figure {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	longest := func(list []time.Duration) time.Duration { return slices.Max(append(list, 0)) }
	return []figure{
		figureOf(name+", median", "ms", pair[float64]{ms(median(of.Kubelet)), ms(median(of.Mac))}, g, bar),
		figureOf(name+", longest", "ms", pair[float64]{ms(longest(of.Kubelet)), ms(longest(of.Mac))}, goal{}, goal{}),
	}
}

// figures are all rows.
func (m *measured) figures() []figure {
	var rows []figure
	size := float64(m.AgentBytes) / 1e6
	for _, t := range []struct {
		name      string
		of        pair[[]time.Duration]
		goal, bar goal
	}{
		{"exec: first byte", m.FirstByte, atMostTimes(1.2), execBar},
		{"logs -f: line printed to seen", m.Line, atMostTimes(1.2), lineBar},
		{"Pod created to Running seen", m.CreateToRunning, atMostTimes(1), runBar},
		{"process ended, or VM's lock dropped, to Pod gone", m.EndToGone, atMostTimes(1), goal{}},
	} {
		rows = append(rows, medians(t.name, t.of, t.goal, t.bar)...)
	}
	return append(rows,
		figureOf("port-forward from the Pod", "MB/s", m.Down, atLeastTimes(0.8), portBar),
		figureOf("port-forward to the Pod", "MB/s", m.Up, atLeastTimes(0.8), portBar),
		figureOf("commands at once: lost", "bytes", m.Lost, atMost(0), goal{}),
		figureOf("commands at once: all done", "s", m.Burst, goal{}, goal{}),
		figureOf("at rest: memory", "MB", m.Memory, atMost(40), goal{}),
		figureOf("at rest: processor", "% of a core", m.CPU, atMost(0.1), goal{}),
		figureOf("at rest: requests", "a second", m.Requests, atMost(0.112), goal{}),
		figure{Name: "size of the agent", Unit: "MB", Mac: size, Goal: atMost(45).String(), Met: atMost(45).metBy(0, size), Kept: true, alone: true},
	)
}

// sides say what each does, without which no figure can be read.
func sides() []string {
	return []string{
		"Both: one API server, Pods of the same script, asked for by client-go as kubectl does, one connection each time.",
		"Kubelet: a container is a process of this machine. A stream goes through the API server, the kubelet and the streaming library of container runtimes; exec starts a process, logs are read from files, port-forward dials 127.0.0.1.",
		"Mac: a container is a command in a simulated VM that takes no time of its own. A stream goes through the API server, the agent, the VM's shim and its guest agent; exec has that start a process, logs are read from files, port-forward runs nc in the guest for each connection.",
		"Not in it: macOS, a real VM, and the network between a Mac and the API server.",
	}
}

// report is what is printed and written.
type report struct {
	At       time.Time `json:"at"`
	CPUs     int       `json:"cpus"`
	Load     string    `json:"loadAtEnd"`
	Settings string    `json:"settings"`
	Sides    []string  `json:"sides"`
	Figures  []figure  `json:"figures"`
}

func newReport(m *measured) *report {
	r := &report{
		At: time.Now().UTC().Truncate(time.Second), CPUs: runtime.NumCPU(), Load: "unknown",
		Settings: m.Settings, Sides: sides(), Figures: m.figures(),
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		r.Load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	return r
}

func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "%d CPUs, load at the end %s; %s\n\n", r.CPUs, r.Load, r.Settings)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FIGURE\tKUBELET\tMAC\tUNIT\tMAC / KUBELET\tGOAL\t\tBAR\t")
	for _, f := range r.Figures {
		fmt.Fprintf(table, "%s\t%s\t%.4g\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, f.kubelet(), f.Mac, f.Unit, f.ratio(), f.Goal, f.verdict(), f.Bar, f.keeps())
	}
	_ = table.Flush() // to the terminal
	fmt.Fprintln(out)
	for _, line := range r.Sides {
		fmt.Fprintln(out, line)
	}
}

func (f figure) kubelet() string {
	if f.alone {
		return ""
	}
	return fmt.Sprintf("%.4g", f.Kubelet)
}

func (f figure) ratio() string {
	if f.Ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", f.Ratio)
}

func (f figure) verdict() string {
	switch {
	case f.Goal == "":
		return ""
	case f.Met:
		return "met"
	}
	return "missed"
}

// keeps says whether what a person feels is within its bar.
func (f figure) keeps() string {
	switch {
	case f.Bar == "":
		return ""
	case f.Kept:
		return "kept"
	}
	return "broken"
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the figures: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of the figures: %w", err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
