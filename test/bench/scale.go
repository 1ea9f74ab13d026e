package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/macfleet/macfleet/sandbox/cluster"
	"github.com/macfleet/macfleet/test/bench/figure"
)

//go:embed scale
var fleets embed.FS

// The MachineDeployments, each with its Cluster, named as the file that they are in.
const (
	oursFleet     = "ours"
	inMemoryFleet = "inmemory"
)

// warmUp is how many Machines fill caches and open connections on either side, before a run counts.
const warmUp = 10

// scaled is how long each scaling took.
type scaled struct {
	Replicas int             `json:"replicas"`
	Ours     []time.Duration `json:"ours"`
	// Peer's are in the same order; none: there was no peer.
	Peer []time.Duration `json:"peer,omitempty"`
}

// measureScale scales MachineDeployments from nothing until all Machines run, ours and that of Cluster
// API's in-memory provider in turn, on one control plane with one core.
func measureScale(ctx context.Context, binaries cluster.Binaries, s settings) (out *scaled, err error) {
	dir, err := os.MkdirTemp("", "mfbench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	say("scale: starting a control plane with core, and the controllers with %d hosts", s.replicas)
	c, err := cluster.Start(ctx, cluster.Options{Binaries: binaries, Dir: filepath.Join(dir, "cluster")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	crds := envtest.CRDInstallOptions{Paths: []string{filepath.Join("charts", "macfleet", "crds")}, ErrorIfPathMissing: true, MaxTime: hang}
	if _, err := envtest.InstallCRDs(c.Config(), crds); err != nil {
		return nil, fmt.Errorf("installing CRDs: %w", err)
	}
	s.latency = 0 // the peer asks nobody
	w, err := startOn(ctx, c.Config(), options{servers: s.replicas, inventory: freedInventory, clusters: true, settings: s})
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, w.stopManager())
		w.vendor.Close()
	}()
	w.switchOn()
	stopPeer, err := w.startInMemory(ctx, c, dir, s)
	if err != nil && !errors.Is(err, errNoInMemory) {
		return nil, err
	}
	if err != nil {
		say("scale: nothing is measured beside ours: %v", err)
	} else {
		defer func() { err = errors.Join(err, stopPeer()) }()
	}
	return w.scaleInTurn(ctx, s, err == nil)
}

func (w *world) scaleInTurn(ctx context.Context, s settings, withPeer bool) (*scaled, error) {
	if err := w.applyFleet(ctx, oursFleet); err != nil {
		return nil, err
	}
	if err := w.awaitPool(ctx, s.replicas); err != nil {
		return nil, err
	}
	out := &scaled{Replicas: s.replicas}
	for run := range s.scaleRuns + 1 {
		replicas := s.replicas
		if run == 0 {
			replicas = min(replicas, warmUp)
		}
		for _, side := range []struct {
			fleet string
			times *[]time.Duration
		}{{oursFleet, &out.Ours}, {inMemoryFleet, &out.Peer}} {
			if side.fleet == inMemoryFleet && !withPeer {
				continue
			}
			took, err := w.scaleUpAndDown(ctx, side.fleet, replicas, s.replicas)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side.fleet, err)
			}
			say("scale: %s, 0 to %d Running: %.1f s", side.fleet, replicas, took.Seconds())
			if run > 0 {
				*side.times = append(*side.times, took)
			}
		}
	}
	return out, nil
}

// scaleUpAndDown is the time from the wish for so many replicas to the event of the last Machine that runs.
// When it returns, all is as it was, with so many hosts free.
func (w *world) scaleUpAndDown(ctx context.Context, fleet string, replicas, hosts int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	watch, err := w.client.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(namespace), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: fleet})
	if err != nil {
		return 0, fmt.Errorf("watching Machines: %w", err)
	}
	defer watch.Stop()
	began := time.Now()
	if err := w.scaleTo(ctx, fleet, replicas); err != nil {
		return 0, err
	}
	run := map[string]bool{}
	for len(run) < replicas {
		event, open := <-watch.ResultChan()
		if !open {
			return 0, fmt.Errorf("the watch ended with %d of %d Machines that run", len(run), replicas)
		}
		if m, is := event.Object.(*clusterv1.Machine); is && m.Status.Phase == string(clusterv1.MachinePhaseRunning) {
			run[m.Name] = true
		}
	}
	took := time.Since(began)
	if err := w.scaleTo(ctx, fleet, 0); err != nil {
		return 0, err
	}
	return took, w.awaitNone(ctx, fleet, hosts)
}

func (w *world) scaleTo(ctx context.Context, fleet string, replicas int) error {
	deployment := &clusterv1.MachineDeployment{}
	deployment.Namespace, deployment.Name = namespace, fleet
	return w.client.Patch(ctx, deployment, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)))
}

// awaitNone waits until no Machine of the fleet is left, and all of our hosts are free again.
func (w *world) awaitNone(ctx context.Context, fleet string, hosts int) error {
	err := until(ctx, func() (bool, error) {
		list := &clusterv1.MachineList{}
		err := w.client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: fleet})
		return len(list.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of all Machines: %w", err)
	}
	return w.awaitPool(ctx, hosts)
}

// applyFleet makes what a file has.
func (w *world) applyFleet(ctx context.Context, fleet string) error {
	text, err := fleets.ReadFile("scale/" + fleet + ".yaml")
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading the fleet %s: %w", fleet, err)
		}
		if err := w.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

func (m *measured) scaleFigures() []figure.Figure {
	if m.scaled == nil {
		return nil
	}
	name := fmt.Sprintf("MachineDeployment from 0 to %d Running", m.scaled.Replicas)
	measured := figure.Seconds(m.scaled.Ours...)
	if len(m.scaled.Peer) == 0 {
		return []figure.Figure{figure.New(name, "s", measured)}
	}
	return []figure.Figure{figure.Beside(name, "s", measured, figure.Seconds(m.scaled.Peer...), figure.Ratios(m.scaled.Ours, m.scaled.Peer), figure.AtMostTimes(1.15))}
}
