package hostos

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Process is one of the host.
type Process struct {
	PID, Parent int
	// ResidentBytes of memory.
	ResidentBytes int64
	// CPU time it has used since it began.
	CPU time.Duration
	// Name of its executable, on macOS with its path.
	Name string
}

// ReadProcesses asks ps for all there are.
func ReadProcesses(ctx context.Context, r Runner) ([]Process, error) {
	out, err := r.Run(ctx, "ps", "-axo", "pid=,ppid=,rss=,time=,comm=")
	if err != nil {
		return nil, err
	}
	var all []Process
	for l := range strings.Lines(out) {
		p, err := processOf(l)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func processOf(l string) (Process, error) {
	fields := strings.Fields(l)
	if len(fields) < 5 {
		return Process{}, fmt.Errorf("ps printed the line %q", l)
	}
	var numbers [3]int64
	for i := range numbers {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return Process{}, fmt.Errorf("reading the numbers of ps: %w", err)
		}
		numbers[i] = n
	}
	used, err := cpuTime(fields[3])
	if err != nil {
		return Process{}, err
	}
	const kibibyte = 1 << 10
	return Process{
		PID: int(numbers[0]), Parent: int(numbers[1]), ResidentBytes: numbers[2] * kibibyte, CPU: used,
		Name: strings.Join(fields[4:], " "),
	}, nil
}

// cpuTime reads [[days-]hours:]minutes:seconds[.hundredths]: macOS has any number of
// minutes, Linux days.
func cpuTime(text string) (time.Duration, error) {
	var total time.Duration
	rest := text
	if days, after, found := strings.Cut(text, "-"); found {
		n, err := strconv.Atoi(days)
		if err != nil {
			return 0, fmt.Errorf("ps printed the time %q", text)
		}
		total, rest = time.Duration(n)*24*time.Hour, after
	}
	var seconds float64
	for part := range strings.SplitSeq(rest, ":") {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, fmt.Errorf("ps printed the time %q", text)
		}
		seconds = seconds*60 + n
	}
	return total + time.Duration(seconds*float64(time.Second)), nil
}
