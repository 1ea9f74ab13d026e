package main

import (
	"fmt"
	"time"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// measured is everything that one run has measured. Times are those of each, rates in MB a second.
type measured struct {
	Settings              string
	Turns                 pair[[]turn]
	FirstByte, Line       pair[[]time.Duration]
	Down, Up              pair[[]float64]
	Lost, Burst           pair[float64]
	Memory, CPU, Requests pair[float64]
	AgentBytes            int64
}

func (s settings) told() string {
	return fmt.Sprintf("%d Pods, %d commands, %d lines, %d commands at once, %d MB, at rest for %s", s.pods, s.execs, s.lines, s.burst, s.megabytes, s.idle)
}

// of is one time of each Pod.
func (m *measured) of(which func(turn) time.Duration) (times pair[[]time.Duration]) {
	for _, t := range m.Turns.Kubelet {
		times.Kubelet = append(times.Kubelet, which(t))
	}
	for _, t := range m.Turns.Mac {
		times.Mac = append(times.Mac, which(t))
	}
	return times
}

// figures are all rows. Bars are what a person feels, where a VM cannot meet the kubelet's figure: ADR 40.
func (m *measured) figures() []figure.Figure {
	var rows []figure.Figure
	for _, t := range []struct {
		name  string
		of    pair[[]time.Duration]
		goals []figure.Goal
	}{
		{"exec: first byte", m.FirstByte, []figure.Goal{figure.AtMostTimes(1.2), figure.AtMost(50).AsBar()}},
		{"logs -f: line printed to seen", m.Line, []figure.Goal{figure.AtMostTimes(1.2), figure.AtMost(5).AsBar()}},
		{"Pod seen to process or VM's clone spawned", m.of(func(t turn) time.Duration { return t.start }), []figure.Goal{figure.AtMostTimes(0.5), figure.AtMost(30).On(figure.P99)}},
		{"process or VM spawned to Ready seen", m.of(func(t turn) time.Duration { return t.ready }), []figure.Goal{figure.AtMostTimes(0.5)}},
		{"Pod created to Running seen", m.of(func(t turn) time.Duration { return t.create }), []figure.Goal{figure.AtMostTimes(1), figure.AtMost(250).AsBar()}},
		{"process ended, or VM's lock dropped, to Pod gone", m.of(func(t turn) time.Duration { return t.end }), []figure.Goal{figure.AtMostTimes(0.5)}},
	} {
		rows = append(rows, figure.Beside(t.name, "ms", figure.Milliseconds(t.of.Mac), figure.Milliseconds(t.of.Kubelet), figure.Ratios(t.of.Mac, t.of.Kubelet), t.goals...))
	}
	for _, t := range []struct {
		name string
		of   pair[[]float64]
	}{{"port-forward from the Pod", m.Down}, {"port-forward to the Pod", m.Up}} {
		rows = append(rows, figure.Beside(t.name, "MB/s", figure.Of(t.of.Mac...), figure.Of(t.of.Kubelet...), figure.Ratios(t.of.Mac, t.of.Kubelet),
			figure.AtLeastTimes(0.8), figure.AtLeast(25).AsBar()))
	}
	once := func(name, unit string, of pair[float64], goals ...figure.Goal) figure.Figure {
		return figure.Beside(name, unit, figure.Of(of.Mac), figure.Of(of.Kubelet), figure.Sample{}, goals...)
	}
	return append(rows,
		once("commands at once: lost", "bytes", m.Lost, figure.AtMost(0)),
		once("commands at once: all done", "s", m.Burst),
		once("at rest: memory", "MB", m.Memory, figure.AtMost(30)),
		once("at rest: processor", "% of a core", m.CPU, figure.AtMost(0.1)),
		once("at rest: requests", "a second", m.Requests, figure.AtMost(0.112)),
		figure.New("size of the agent", "MB", figure.Of(float64(m.AgentBytes)/1e6), figure.AtMost(45)),
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

// tell puts into a report what was measured.
func (m *measured) tell(r *figure.Report) {
	r.Settings, r.Ours, r.Peer, r.Notes = m.Settings, "Mac", "kubelet", sides()
	r.Add(m.figures()...)
}
