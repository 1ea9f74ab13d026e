// Command scale runs a fleet of a thousand hosts and Machines against a vendor that takes its time and fails
// now and then: what the manager asks and holds at sizes from ten hosts up, and whether nothing is lost when all
// of it is rolled out, released, cut off from the vendor, or led by another manager.
//
// Managers, API server and Cluster API's core are real processes, the vendor is simulated over HTTP. Of
// the Macs only the SSH end is: what answers there says what a Mac says, takes a while, and becomes a
// Node, but no agent runs. Times depend on the machine; what is counted does not.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	hostcontroller "github.com/macfleet/macfleet/internal/controller/host"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/bench/figure"
)

// settings are the flags.
type settings struct {
	sizes     []int
	latency   time.Duration
	jitter    time.Duration
	faults    float64
	converge  time.Duration
	timeScale float64
	inventory time.Duration
	outage    time.Duration
	rest      time.Duration
	every     time.Duration
	patience  time.Duration
	folder    string
	dir       string
	table     string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	sizes := f.String("sizes", "10,30,100,300,1000", "numbers of hosts and Machines, from the smallest; to the last of them everything happens")
	f.DurationVar(&s.latency, "latency", 200*time.Millisecond, "how long the vendor takes for an answer, on average")
	f.DurationVar(&s.jitter, "jitter", 100*time.Millisecond, "by how much more or less")
	f.Float64Var(&s.faults, "faults", 0.01, "share of the vendor's calls that go wrong")
	f.DurationVar(&s.converge, "converge", time.Second, "how long a Mac takes to converge, on average")
	f.Float64Var(&s.timeScale, "time-scale", 60, "how much faster the vendor's clock goes: a reinstall takes 17 minutes of it")
	f.DurationVar(&s.inventory, "inventory", hostcontroller.DefaultInventoryInterval, "time between two of the manager's lists of a zone")
	f.DurationVar(&s.outage, "outage", 10*time.Minute, "how long the vendor does not answer")
	f.DurationVar(&s.rest, "rest", 2*time.Minute, "how long a fleet is looked at in which nothing happens")
	f.DurationVar(&s.every, "every", 5*time.Second, "time between two samples")
	f.DurationVar(&s.patience, "patience", 20*time.Minute, "how long a part may take")
	f.StringVar(&s.folder, "folder", figure.Folder, "folder for what was measured, scale-run.json")
	f.StringVar(&s.dir, "dir", "", "folder for the sandbox, which stays; default: one that goes when all is well")
	f.StringVar(&s.table, "table", "", "run nothing, and print the tables of this file as Markdown")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < smallest {
			return s, fmt.Errorf("-sizes: %q is no number of hosts from %d up", text, smallest)
		}
		s.sizes = append(s.sizes, n)
	}
	if !slices.IsSorted(s.sizes) {
		return s, errors.New("-sizes: begin with the smallest")
	}
	return s, nil
}

// smallest fleet of which there are parts to do something to.
const smallest = 4

func run(ctx context.Context, args []string) error {
	s, err := parse(args)
	switch {
	case err != nil:
		return err
	case s.table != "":
		return printTables(os.Stdout, s.table)
	}
	// Clients complain of what is waited for anyway.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	kept := s.dir != ""
	if !kept {
		if s.dir, err = emptyDir(); err != nil {
			return err
		}
	}
	err = measure(ctx, s)
	if err != nil || kept {
		say("the logs are in %s", logs(s.dir))
		return err
	}
	return os.RemoveAll(s.dir)
}

// measure runs a fleet of each size, and writes what there is whenever there is more.
func measure(ctx context.Context, s settings) (err error) {
	began := figure.Begin(recordName)
	binaries, err := world.Build(ctx, world.BuildOptions{Progress: func(text string) { say("%s", text) }})
	if err != nil {
		return err
	}
	f, err := startFleet(ctx, s, binaries)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop(context.WithoutCancel(ctx))) }()
	b := newBench(s, f, began)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go b.meter.watch(watching, s.every)
	if err := f.set(weather(s.latency, s.jitter, s.faults)); err != nil {
		return err
	}
	return cmp.Or(b.all(ctx), b.sound())
}

// say tells what is being done.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// path of the file that a run writes.
func (s settings) path() string { return filepath.Join(s.folder, recordName+".json") }
