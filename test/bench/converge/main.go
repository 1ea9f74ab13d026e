// Command converge measures what it takes to make a Mac a node: executions, bytes
// and time over a slow connection, and what one manager needs to do so with many
// Macs at once. Macs are simulated and their agents real; SSH is real, too.
//
// It prints a table. Nothing here is a test: times depend on the machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"text/tabwriter"
	"time"
)

// settings are the flags.
type settings struct {
	rtt  time.Duration
	macs int
	only string
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
	f.IntVar(&s.macs, "macs", 100, "Macs that one manager converges at once")
	f.StringVar(&s.only, "only", "", "one or many: measure that alone")
	if err := f.Parse(args); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	row := func(what, figure, goal string) { fmt.Fprintf(table, "%s\t%s\t%s\n", what, figure, goal) }
	row("FIGURE", "MEASURED", "GOAL")
	if s.only != "many" {
		if err := measureOne(ctx, s, row); err != nil {
			return fmt.Errorf("one Mac: %w", err)
		}
	}
	if s.only != "one" {
		if err := measureMany(ctx, s, row); err != nil {
			return fmt.Errorf("many Macs: %w", err)
		}
	}
	return table.Flush()
}

// say tells what is being done, apart from the figures.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
