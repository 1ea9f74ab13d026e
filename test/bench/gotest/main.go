// Command gotest runs what is measured by go test, and puts it into the shape that all benches
// share: decisions and passes that have nothing to do, the first paint of the board, and how many
// steps of histories are checked in a second.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"github.com/macfleet/macfleet/test/bench/figure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("gotest", flag.ContinueOnError)
	only := f.String("only", "", "decisions, board or schedules: measure that alone")
	runs := f.Int("runs", 5, "times that each is measured")
	folder := f.String("folder", figure.Folder, "folder for the figures, one file a part")
	if err := f.Parse(args); err != nil {
		return err
	}
	for _, p := range parts() {
		if *only != "" && *only != p.name {
			continue
		}
		if err := p.measure(ctx, *runs, *folder); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// part is one file of figures.
type part struct {
	name     string
	settings string
	// args of go test, packages included.
	args []string
	env  []string
	rows []row
}

func (p part) measure(ctx context.Context, runs int, folder string) error {
	report := figure.Begin(p.name)
	report.Settings = p.settings
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", fmt.Sprint("-count=", runs)}, p.args...)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), p.env...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err), errors.New(string(out)))
	}
	all, err := figuresOf(string(out), p.rows)
	if err != nil {
		return err
	}
	report.Add(all...)
	return report.End(os.Stdout, folder)
}

func parts() []part {
	const milliseconds, kilobytes = 1e-6, 1e-3 // of nanoseconds, of bytes
	return []part{
		{
			name: "decisions", settings: "a client in memory that copies through JSON",
			args: []string{"-run", "^$", "-bench", "Choose$|NoOp$", "./internal/host", "./internal/controller/host", "./internal/controller/machine"},
			rows: []row{
				{of: "internal/host Choose", metric: "ns/op", name: "a host chosen of 1,000", unit: "ms", times: milliseconds},
				{of: "internal/controller/host NoOp", metric: "ns/op", name: "a pass over a host in use that has nothing to do", unit: "ms", times: milliseconds},
				{of: "internal/controller/host NoOp", metric: "p99-ns/op", name: "a pass over a host in use that has nothing to do, 99th percentile", unit: "ms", times: milliseconds},
				{of: "internal/controller/machine NoOp", metric: "ns/op", name: "a visit to a Machine that runs", unit: "ms", times: milliseconds},
				{of: "internal/controller/machine NoOp", metric: "p99-ns/op", name: "a visit to a Machine that runs, 99th percentile", unit: "ms", times: milliseconds},
			},
		},
		{
			name: "board", settings: "1,000 hosts, 20 times each, in a real Chromium",
			args: []string{"-run", "^$", "-bench", "FirstPaint$", "-benchtime", "20x", "./test/board"},
			rows: []row{
				{of: "test/board FirstPaint", metric: "bytes", name: "board: bytes sent, with style and script", unit: "kB", times: kilobytes, goals: []figure.Goal{figure.AtMost(200)}},
				{of: "test/board FirstPaint", metric: "ms-of-processor", name: "board: processor of the page's thread until the tiles are there", unit: "ms", times: 1},
				{of: "test/board FirstPaint", metric: "ms-to-first-paint-median", name: "board: first paint, median of 20", unit: "ms", times: 1, goals: []figure.Goal{figure.AtMost(300)}},
				{of: "test/board FirstPaint", metric: "ms-longest", name: "board: first paint, longest of 20", unit: "ms", times: 1},
			},
		},
		{
			name: "schedules", settings: "200 histories each time",
			args: []string{"-run", "TestSchedules$", "-v", "./test/schedule", "-schedules", "200"}, env: []string{"GOGC=800"},
			rows: []row{{of: "test/schedule TestSchedules", metric: "steps/s", name: "steps of histories checked in a second", times: 1}},
		},
	}
}
