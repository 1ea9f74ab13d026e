// Command converge measures what it takes to make a Mac a node: executions, bytes
// and time over a slow connection, beside Ansible where it is installed, and what one manager
// needs to do so with many Macs at once. Macs are simulated and their agents real; SSH is
// real, too.
//
// It prints tables and writes the same as JSON. Nothing here is a test: times depend on the machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// settings are the flags.
type settings struct {
	rtt    time.Duration
	runs   int
	looks  int
	macs   int
	only   string
	folder string
}

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
	var s settings
	f := flag.NewFlagSet("converge", flag.ContinueOnError)
	f.DurationVar(&s.rtt, "rtt", 100*time.Millisecond, "round trip to the one Mac")
	f.IntVar(&s.runs, "runs", 3, "fresh Macs to make nodes, one after the other, and as many by Ansible")
	f.IntVar(&s.looks, "looks", 1, "times to look at each of them again")
	f.IntVar(&s.macs, "macs", 100, "Macs that one manager converges at once")
	f.StringVar(&s.only, "only", "", "one or many: measure that alone")
	f.StringVar(&s.folder, "folder", figure.Folder, "folder for the figures, converge.json and manager.json")
	if err := f.Parse(args); err != nil {
		return err
	}
	for _, part := range []struct {
		name, file string
		measure    func(context.Context, settings, *figure.Report) error
	}{{"one", "converge", measureOne}, {"many", "manager", measureMany}} {
		if s.only != "" && s.only != part.name {
			continue
		}
		report := figure.Begin(part.file)
		if err := part.measure(ctx, s, report); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		if err := report.End(os.Stdout, s.folder); err != nil {
			return err
		}
	}
	return nil
}

// say tells what is being done, apart from the figures.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
