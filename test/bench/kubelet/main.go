// Command kubelet measures a Mac's agent beside Kubernetes' own kubelet, in one run on one control plane: how soon a
// Pod runs and is gone, what either costs at rest, and what exec, logs and port-forward take through the API server,
// as kubectl asks for them. The kubelet is a hollow one, whose containers are processes of this machine; tart is
// simulated and takes no time of its own. What macOS and a VM take is left out.
//
// It prints a table and writes the same as JSON. Nothing here is a test: times depend on the machine, and none of
// them fails the run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/macfleet/macfleet/test/agent/stage"
	"github.com/macfleet/macfleet/test/bench/figure"
)

// settings are the flags.
type settings struct {
	hollow, agent string
	pods          int
	execs, lines  int
	burst         int
	megabytes     int
	idle          time.Duration
	folder        string
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

func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("kubelet", flag.ContinueOnError)
	f.StringVar(&s.hollow, "hollow", filepath.Join("bin", "hollowkubelet"), "the built hollow kubelet")
	f.StringVar(&s.agent, "agent", filepath.Join("bin", "tart-kubelet"), "the agent as Macs get it, for its size")
	f.IntVar(&s.pods, "pods", 20, "Pods to start and delete on each side, one after the other")
	f.IntVar(&s.execs, "execs", 100, "commands to run on each side, one after the other")
	f.IntVar(&s.lines, "lines", 200, "lines of a log to follow on each side")
	f.IntVar(&s.burst, "burst", 100, "commands to run at once")
	f.IntVar(&s.megabytes, "megabytes", 64, "MB to send through a forwarded port, each way")
	f.DurationVar(&s.idle, "idle", time.Minute, "how long to watch both at rest; the goals are for 10m")
	f.StringVar(&s.folder, "folder", figure.Folder, "folder for the figures, kubelet.json")
	return s, f.Parse(args)
}

func run(ctx context.Context, args []string) (err error) {
	s, err := parse(args)
	if err != nil {
		return err
	}
	report := figure.Begin("kubelet")
	size, err := os.Stat(s.agent)
	if err != nil {
		return fmt.Errorf("looking at the agent's size: %w", err)
	}
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
	m, err := measure(ctx, plane, dir, s)
	if err != nil {
		return err
	}
	m.AgentBytes = size.Size()
	m.tell(report)
	return report.End(os.Stdout, s.folder)
}
