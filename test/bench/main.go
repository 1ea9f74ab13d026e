// Command bench measures what macfleet promises about claims: how soon a freed host
// is claimed, how long a thousand claims take next to the loop under one lock that
// they replace, what the vendor is asked at rest, how long a MachineDeployment takes from nothing,
// next to one of Cluster API's in-memory provider, and how soon macfleet tells a person of
// a thousand hosts. The API server and the
// controllers are real; the vendor is simulated in the same process, and its Macs
// do at once what they are told. What a Mac really takes is left to the sandbox.
//
// It prints a table and writes the same as JSON. Nothing here is a test: times
// depend on the machine, and none of them fails the run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/macfleet/macfleet/sandbox/cluster"
	"github.com/macfleet/macfleet/test/bench/figure"
)

// settings are the flags.
type settings struct {
	hosts    int
	machines int
	atOnce   int
	frees    int
	waiting  int
	latency  time.Duration
	peer     time.Duration
	kubeQPS  float64
	bursts   int
	only     string
	requests bool
	folder   string
	// replicas of the scaled MachineDeployments, scaleRuns that count, inMemory the peer's program.
	replicas, scaleRuns int
	inMemory            string
	logFile             string
	restRuns            int
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
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&s.hosts, "hosts", 1000, "free hosts")
	f.IntVar(&s.machines, "machines", 1000, "Machines that wait for them")
	f.IntVar(&s.frees, "frees", 60, "hosts to free while Machines wait")
	f.IntVar(&s.atOnce, "at-once", 4, "hosts that are on their way at a time")
	f.IntVar(&s.waiting, "waiting", 100, "Machines that wait for each of these")
	f.DurationVar(&s.latency, "latency", 200*time.Millisecond, "how long the vendor takes for each answer")
	f.DurationVar(&s.peer, "peer", time.Minute, "how long the loop under one lock may run before it is extrapolated")
	f.Float64Var(&s.kubeQPS, "kube-api-qps", defaultKubeQPS, "the manager's requests a second to the Kubernetes API")
	f.IntVar(&s.bursts, "kube-api-burst", defaultKubeBurst, "burst of these")
	f.IntVar(&s.restRuns, "lists", 1, "lists of the inventory that a rest is measured over")
	f.StringVar(&s.only, "only", "", "freed, claims, verbs or scale: measure that alone")
	f.IntVar(&s.replicas, "replicas", 50, "Machines to scale to")
	f.IntVar(&s.scaleRuns, "scale-runs", 3, "times to scale on each side")
	f.StringVar(&s.inMemory, "inmemory", filepath.Join("bin", "inmemoryprovider"), "Cluster API's built in-memory provider")
	f.BoolVar(&s.requests, "requests", false, "tell which requests to the API server each claim takes, and who makes them")
	f.StringVar(&s.folder, "folder", figure.Folder, "folder for the figures: claims.json, scale.json and verbs.json")
	f.StringVar(&s.logFile, "log", os.DevNull, "file for the controllers' log")
	return s, f.Parse(args)
}

func run(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	log, err := os.Create(s.logFile)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close() //nolint:errcheck // only a log
	setLogger(log)
	binaries, err := cluster.Build(ctx, cluster.BuildOptions{Progress: func(p cluster.Progress) { say("%s", p) }})
	if err != nil {
		return fmt.Errorf("building the control plane: %w", err)
	}
	return measure(ctx, binaries, s)
}

func setLogger(out io.Writer) {
	logger := logr.FromSlogHandler(slog.NewJSONHandler(out, nil))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
}

// measure takes each figure in a world of its own, one after the other.
func measure(ctx context.Context, binaries cluster.Binaries, s settings) error {
	out := &measured{settings: s}
	claims := figure.Begin("claims")
	for _, part := range []struct {
		name string
		take func() error
	}{
		{"freed", func() (err error) { out.freed, err = measureFreed(ctx, binaries, s); return err }},
		{"claims", func() error { return measureMany(ctx, binaries, s, out) }},
	} {
		if err := s.takes(part.name, part.take); err != nil {
			return err
		}
	}
	if err := out.tellClaims(claims); err != nil {
		return err
	}
	if s.requests {
		out.printRequests(os.Stdout)
	}
	scale := figure.Begin("scale")
	err := s.takes("scale", func() (err error) { out.scaled, err = measureScale(ctx, binaries, s); return err })
	if err != nil {
		return err
	}
	if err := out.tellScale(scale); err != nil {
		return err
	}
	verbs := figure.Begin("verbs")
	err = s.takes("verbs", func() (err error) { out.verbs, err = measureVerbs(ctx, binaries, s); return err })
	if err != nil {
		return err
	}
	return out.tellVerbs(verbs)
}

// takes measures a part, unless another is wanted alone.
func (s settings) takes(part string, take func() error) error {
	if s.only != "" && s.only != part {
		return nil
	}
	if err := take(); err != nil {
		return fmt.Errorf("%s: %w", part, err)
	}
	return nil
}

// say tells what is being done, apart from the figures.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
