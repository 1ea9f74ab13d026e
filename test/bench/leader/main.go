// Command leader measures how long nobody does anything when the leading one of two managers ends:
// from its end to the next useful act, the claim of a host for a Machine that is new. The
// manager, the control plane and Cluster API's core are real, the vendor is simulated.
//
// It prints a table and writes the same as JSON. Nothing here is a test: times depend on the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/bench/figure"
)

const (
	// lease of the election, in the manager's namespace.
	lease = "macfleet-manager"
	// managers of which one leads.
	managers = 2
	// patience bounds each wait.
	patience = 5 * time.Minute
	look     = 10 * time.Millisecond
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
	f := flag.NewFlagSet("leader", flag.ContinueOnError)
	runs := f.Int("runs", 3, "times that the leader is stopped, and as many that it is killed")
	folder := f.String("folder", figure.Folder, "folder for the figures, leader.json")
	if err := f.Parse(args); err != nil {
		return err
	}
	report := figure.Begin("leader")
	report.Settings = "two managers with the chart's election"
	stopped, killed, err := measure(ctx, *runs)
	if err != nil {
		return err
	}
	report.Add(
		figure.New("leader stopped to the next claim", "s", figure.Seconds(stopped...), figure.AtMost(5).On(figure.Longest)),
		figure.New("leader killed to the next claim", "s", figure.Seconds(killed...), figure.AtMost(20).On(figure.Longest)),
	)
	return report.End(os.Stdout, *folder)
}

// bench is a sandbox with two managers.
type bench struct {
	*world.World
	client client.WithWatch
	// leading is the manager that leads, machines how many Machines there are.
	leading, machines int
}

func measure(ctx context.Context, runs int) (stopped, killed []time.Duration, err error) {
	dir, err := os.MkdirTemp("", "mf")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	say := func(text string) { fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+"%s\n", text) }
	binaries, err := world.Build(ctx, world.BuildOptions{Progress: say})
	if err != nil {
		return nil, nil, err
	}
	w, err := world.Start(ctx, world.Options{Dir: dir, Binaries: binaries, Hosts: 2 * runs, TimeScale: 200, Managers: managers, Progress: say})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, w.Stop(context.WithoutCancel(ctx))) }()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme)); err != nil {
		return nil, nil, err
	}
	b := &bench{World: w}
	if b.client, err = client.NewWithWatch(w.Config(), client.Options{Scheme: scheme}); err != nil {
		return nil, nil, err
	}
	for range runs {
		for _, one := range []struct {
			end   func(context.Context) error
			times *[]time.Duration
		}{{b.stop, &stopped}, {b.kill, &killed}} {
			took, err := b.lose(ctx, one.end)
			if err != nil {
				return nil, nil, err
			}
			say(fmt.Sprintf("the next claim after %.1f s", took.Seconds()))
			*one.times = append(*one.times, took)
		}
	}
	return stopped, killed, nil
}

// lose ends the leader, and is the time until the other one has claimed a host for a Machine that
// was asked for after the end. Afterwards both run again.
func (b *bench) lose(ctx context.Context, end func(context.Context) error) (time.Duration, error) {
	before, err := b.holder(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := end(ctx); err != nil {
		return 0, err
	}
	b.machines++
	if err := b.scale(ctx); err != nil {
		return 0, err
	}
	if err := b.awaitClaims(ctx); err != nil {
		return 0, err
	}
	took := time.Since(began)
	after, err := b.holder(ctx)
	if err != nil {
		return 0, err
	}
	if after == before {
		return 0, fmt.Errorf("%s still leads: manager %d did not", after, b.leading+1)
	}
	if err := b.StartManager(ctx, b.leading); err != nil {
		return 0, err
	}
	b.leading = (b.leading + 1) % managers
	return took, nil
}

// stop ends the leader as a node that is drained does.
func (b *bench) stop(ctx context.Context) error { return b.StopManager(ctx, b.leading) }

func (b *bench) kill(context.Context) error { return b.KillManager(b.leading) }

// holder is who leads.
func (b *bench) holder(ctx context.Context) (holder string, err error) {
	err = until(ctx, func(ctx context.Context) (bool, error) {
		l := &coordinationv1.Lease{}
		err := b.client.Get(ctx, client.ObjectKey{Namespace: world.Namespace, Name: lease}, l)
		if err == nil && l.Spec.HolderIdentity != nil {
			holder = *l.Spec.HolderIdentity
		}
		return holder != "", client.IgnoreNotFound(err)
	})
	if err != nil {
		return "", fmt.Errorf("reading who leads: %w", err)
	}
	return holder, nil
}

func (b *bench) scale(ctx context.Context) error {
	deployment := &clusterv1.MachineDeployment{}
	deployment.Namespace, deployment.Name = world.Namespace, world.Fleet
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, b.machines)
	if err := b.client.Patch(ctx, deployment, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("asking for a Machine: %w", err)
	}
	return nil
}

// awaitClaims waits until every Machine has a host.
func (b *bench) awaitClaims(ctx context.Context) error {
	err := until(ctx, func(ctx context.Context) (bool, error) {
		list := &infrav1.ScalewayAppleSiliconMachineList{}
		if err := b.client.List(ctx, list, client.InNamespace(world.Namespace)); err != nil {
			return false, err
		}
		claimed := 0
		for _, m := range list.Items {
			if m.Spec.HostRef != nil {
				claimed++
			}
		}
		return claimed == b.machines, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for a claim: %w", err)
	}
	return nil
}

func until(ctx context.Context, holds wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, look, patience, true, holds)
}
