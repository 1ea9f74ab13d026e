// Command agent measures the node agent next to a real API server: what it adds to
// the start and the end of a Pod, what it costs at rest, and how soon a new one
// knows the machines of the one before. tart is simulated and takes no time of its
// own; what macOS and a guest take is left out.
//
// It prints a table and writes the same as JSON. Nothing here is a test: times
// depend on the machine, and none of them fails the run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/macfleet/macfleet/test/agent/stage"
	"github.com/macfleet/macfleet/test/bench/figure"
)

// settings are the flags.
type settings struct {
	pods   int
	idle   time.Duration
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

func run(ctx context.Context, args []string) (err error) {
	var s settings
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	f.IntVar(&s.pods, "pods", 100, "Pods to start and delete, one after the other")
	f.DurationVar(&s.idle, "idle", time.Minute, "how long to watch an agent at rest; the goals are for 10m")
	f.StringVar(&s.folder, "folder", figure.Folder, "folder for the figures, agent.json")
	if err := f.Parse(args); err != nil {
		return err
	}
	report := figure.Begin("agent")
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	plane, err := stage.Start(ctx, stage.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop(context.WithoutCancel(ctx))) }()
	m, err := measure(ctx, plane, s)
	if err != nil {
		return err
	}
	switch m.containerdShim, err = measureContainerdShim(ctx); {
	case errors.Is(err, errNoShim):
		fmt.Fprintln(os.Stderr, "nothing is measured beside a shim:", err)
	case err != nil:
		return err
	default:
		report.Peer, report.Notes = containerdShim, []string{"containerd's shim has no container yet; ours holds a VM that runs."}
	}
	m.tell(report)
	return report.End(os.Stdout, s.folder)
}
