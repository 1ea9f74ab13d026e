package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	hostcontroller "github.com/macfleet/macfleet/internal/controller/host"
	"github.com/macfleet/macfleet/sandbox/cluster"
)

// verbRuns is how often each verb is run.
const verbRuns = 20

// verbTime is what one of macfleet's verbs takes, from the start of its process to its end.
type verbTime struct {
	Verb     string  `json:"verb"`
	Machines int     `json:"machines"`
	Runs     int     `json:"runs"`
	Median   float64 `json:"medianMilliseconds"`
	Longest  float64 `json:"longestMilliseconds"`
	// Processor is what the process took of it, which others at work change little.
	Processor float64 `json:"medianProcessorMilliseconds"`
	Goal      float64 `json:"goalMilliseconds"`
}

// measureVerbs fills a world with hosts, and with Machines that run on all of them, and then
// asks about them as a person does.
func measureVerbs(ctx context.Context, binaries cluster.Binaries, s settings) ([]verbTime, error) {
	machines := min(s.machines, s.hosts)
	say("verbs: starting an API server, the controllers and %d hosts with %d Machines", s.hosts, machines)
	w, err := start(ctx, binaries, options{servers: s.hosts, inventory: hostcontroller.DefaultInventoryInterval, settings: s})
	if err != nil {
		return nil, err
	}
	defer w.stop()
	if err := w.fill(ctx, machines); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mfbench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program, kubeconfig, err := w.forAPerson(ctx, dir)
	if err != nil {
		return nil, err
	}
	all, err := w.machines(ctx)
	if err != nil {
		return nil, err
	}
	var times []verbTime
	for _, verb := range []struct {
		args []string
		goal float64
	}{
		{[]string{"status"}, 300},
		{[]string{"explain", "machine", all[0].Name}, 500},
		{[]string{"explain", "host", all[0].Spec.HostRef.Name}, 500},
	} {
		say("verbs: macfleet %s", verb.args[0])
		took, err := timeVerb(ctx, program, append(verb.args, "--kubeconfig", kubeconfig)...)
		if err != nil {
			return nil, err
		}
		took.Verb, took.Machines, took.Goal = fmt.Sprint("macfleet ", verb.args[0]), machines, verb.goal
		if len(verb.args) > 1 {
			took.Verb += " " + verb.args[1]
		}
		times = append(times, took)
	}
	return times, nil
}

// fill has so many Machines run.
func (w *world) fill(ctx context.Context, machines int) error {
	if err := w.makeCluster(ctx); err != nil {
		return err
	}
	if err := w.open(ctx); err != nil {
		return err
	}
	if err := w.makeMachines(ctx, 0, machines); err != nil {
		return err
	}
	return w.awaitRunning(ctx, machines)
}

// forAPerson builds macfleet as releases have it, and writes a kubeconfig for it.
func (w *world) forAPerson(ctx context.Context, dir string) (program, kubeconfig string, err error) {
	program, kubeconfig = filepath.Join(dir, "macfleet"), filepath.Join(dir, "kubeconfig")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./cmd/macfleet")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("building macfleet: %w: %s", err, out)
	}
	user, err := w.environment.AddUser(envtest.User{Name: "operator", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return "", "", fmt.Errorf("adding a user: %w", err)
	}
	text, err := user.KubeConfig()
	if err != nil {
		return "", "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return program, kubeconfig, os.WriteFile(kubeconfig, text, 0o600)
}

// timeVerb runs a command again and again.
func timeVerb(ctx context.Context, program string, args ...string) (verbTime, error) {
	var walls, processor []float64
	for range verbRuns {
		cmd := exec.CommandContext(ctx, program, args...)
		began := time.Now()
		out, err := cmd.CombinedOutput()
		walls = append(walls, milliseconds(time.Since(began)))
		if err != nil {
			return verbTime{}, fmt.Errorf("macfleet %s: %w: %s", args[0], err, out)
		}
		processor = append(processor, milliseconds(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()))
	}
	slices.Sort(walls)
	slices.Sort(processor)
	return verbTime{Runs: verbRuns, Median: walls[verbRuns/2], Longest: walls[verbRuns-1], Processor: processor[verbRuns/2]}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
