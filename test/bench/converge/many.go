package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/bench/figure"
)

const (
	// look is how often the manager's memory and the Machines are looked at.
	look = 500 * time.Millisecond
	// patience for all Macs, on two cores that also run them.
	patience = 30 * time.Minute
)

// measureMany has one manager converge many Macs, all at once.
func measureMany(ctx context.Context, s settings, report *figure.Report) error {
	dir, err := os.MkdirTemp("", "mf")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binaries, err := world.Build(ctx, world.BuildOptions{Progress: func(text string) { say("%s", text) }})
	if err != nil {
		return err
	}
	w, err := world.Start(ctx, world.Options{
		Dir: dir, Binaries: binaries, Hosts: s.macs, TimeScale: 200,
		// Without an election: the Macs starve the manager here, and it would lose it.
		ManagerArgs: []string{"--leader-elect=false", fmt.Sprintf("--converge-concurrency=%d", s.macs)},
		Progress:    func(text string) { say("%s", text) },
	})
	if err != nil {
		return err
	}
	defer w.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // it is thrown away
	c, err := newClient(w)
	if err != nil {
		return err
	}
	idle, err := resident(w)
	if err != nil {
		return err
	}
	began := time.Now()
	m, err := converged(ctx, c, w, s.macs)
	if err != nil {
		return err
	}
	report.Settings = fmt.Sprintf("%d Macs", s.macs)
	report.Add(
		figure.New("the manager's resident memory, most", "MB", figure.Of(m.most), figure.AtMost(80)),
		figure.New("the same before there are Machines", "MB", figure.Of(idle)),
		figure.New("Macs under way at a time, most, as their Machines say", "", figure.Of(m.atWork)),
		figure.New("until all are converged", "s", figure.Seconds(time.Since(began))),
	)
	return nil
}

func newClient(w *world.World) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(w.Config(), client.Options{Scheme: scheme})
}

// seen is what was seen while the Macs were converged.
type seen struct {
	most   float64 // megabytes
	atWork int
}

// converged scales the fleet and waits until every Mac has a providerID, which it
// gets once it has converged.
func converged(ctx context.Context, c client.Client, w *world.World, n int) (seen, error) {
	deployment := &clusterv1.MachineDeployment{}
	deployment.Namespace, deployment.Name = world.Namespace, world.Fleet
	scale := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n))
	var s seen
	if err := c.Patch(ctx, deployment, scale); err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		now, err := resident(w)
		if err != nil {
			return s, err
		}
		s.most = max(s.most, now)
		var machines infrav1.ScalewayAppleSiliconMachineList
		if err := c.List(ctx, &machines, client.InNamespace(world.Namespace)); err != nil {
			return s, err
		}
		done, atWork := count(machines.Items)
		s.atWork = max(s.atWork, atWork)
		if done == n {
			return s, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, fmt.Errorf("%d of %d Macs are converged: %w", done, n, ctx.Err())
		}
	}
}

func count(machines []infrav1.ScalewayAppleSiliconMachine) (done, atWork int) {
	for _, m := range machines {
		if m.Spec.ProviderID != "" {
			done++
			continue
		}
		for _, condition := range m.Status.Conditions {
			if condition.Type == infrav1.BootstrappedCondition && condition.Reason == infrav1.ReasonRunning && !strings.Contains(condition.Message, "queued") {
				atWork++
			}
		}
	}
	return done, atWork
}

// resident is the manager's resident memory, in megabytes.
func resident(w *world.World) (float64, error) {
	pid, found := w.PIDs()["manager-1"]
	if !found {
		return 0, errors.New("there is no manager")
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kilobytes * 1024 / 1e6, err
		}
	}
	return 0, errors.New("the kernel does not tell the manager's memory")
}
