package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

const (
	namespace   = metav1.NamespaceDefault
	clusterName = "bench"
	// hang is after how long a measurement that makes no progress is given up.
	hang = 30 * time.Minute
	look = 200 * time.Millisecond
)

// makeCluster makes a Cluster whose infrastructure is not provisioned yet, so that
// its Machines wait.
func (w *world) makeCluster(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: clusterName}
	infra := &infrav1.ScalewayAppleSiliconCluster{
		ObjectMeta: meta, Spec: infrav1.ScalewayAppleSiliconClusterSpec{Zones: []string{zone}},
	}
	if err := w.client.Create(ctx, infra); err != nil {
		return err
	}
	return w.client.Create(ctx, &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "ScalewayAppleSiliconCluster", Name: clusterName,
		},
	}})
}

// open provisions the Cluster: all its Machines want a host from now on.
func (w *world) open(ctx context.Context) error {
	cluster := &clusterv1.Cluster{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster); err != nil {
		return err
	}
	base := cluster.DeepCopy()
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	return w.client.Status().Patch(ctx, cluster, client.MergeFrom(base))
}

// makeMachines makes Machines with the numbers from first on, as core would.
func (w *world) makeMachines(ctx context.Context, first, count int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for n := first; n < first+count; n++ {
		group.Go(func() error { return w.makeMachine(ctx, fmt.Sprintf("builders-%05d", n)) })
	}
	return group.Wait()
}

func (w *world) makeMachine(ctx context.Context, name string) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		clusterv1.ClusterNameLabel: clusterName, clusterv1.MachineDeploymentNameLabel: "builders",
	}}
	owner := &clusterv1.Machine{ObjectMeta: meta, Spec: clusterv1.MachineSpec{
		ClusterName: clusterName,
		Bootstrap:   clusterv1.Bootstrap{DataSecretName: ptr.To("none")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "ScalewayAppleSiliconMachine", Name: name,
		},
	}}
	if err := w.client.Create(ctx, owner); err != nil {
		return err
	}
	machine := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: *meta.DeepCopy()}
	machine.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: owner.UID, Controller: ptr.To(true),
	}}
	machine.Spec.Type, machine.Spec.OS = "M2-L", "tahoe"
	return w.client.Create(ctx, machine)
}

// deleteMachine deletes a Machine, and its owner as core would at the end.
func (w *world) deleteMachine(ctx context.Context, name string) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if err := w.client.Delete(ctx, &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: meta}); err != nil {
		return err
	}
	return w.client.Delete(ctx, &clusterv1.Machine{ObjectMeta: meta})
}

func (w *world) machines(ctx context.Context) ([]infrav1.ScalewayAppleSiliconMachine, error) {
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	err := w.client.List(ctx, list, client.InNamespace(namespace))
	return list.Items, err
}

// awaitRunning waits until so many Machines are Running.
func (w *world) awaitRunning(ctx context.Context, count int) error {
	return until(ctx, func() (bool, error) {
		machines, err := w.machines(ctx)
		return running(machines) >= count, err
	})
}

func running(machines []infrav1.ScalewayAppleSiliconMachine) (count int) {
	for _, m := range machines {
		if runs(m) {
			count++
		}
	}
	return count
}

func runs(m infrav1.ScalewayAppleSiliconMachine) bool {
	return m.Status.Phase == "Running" && m.DeletionTimestamp.IsZero()
}

// awaitWaiting waits until so many Machines say that they wait.
func (w *world) awaitWaiting(ctx context.Context, count int) error {
	return until(ctx, func() (bool, error) {
		machines, err := w.machines(ctx)
		waiting := 0
		for _, m := range machines {
			if m.Spec.HostRef == nil && len(m.Finalizers) > 0 && len(m.Status.Conditions) > 1 {
				waiting++
			}
		}
		return waiting >= count, err
	})
}

// awaitPool waits until so many hosts are Available.
func (w *world) awaitPool(ctx context.Context, count int) error {
	return until(ctx, func() (bool, error) {
		list := &infrav1.ScalewayAppleSiliconHostList{}
		err := w.client.List(ctx, list)
		free := 0
		for _, h := range list.Items {
			if h.Status.Phase == infrav1.HostAvailable {
				free++
			}
		}
		return free >= count, err
	})
}

func until(ctx context.Context, holds func() (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, look, hang, true, func(context.Context) (bool, error) { return holds() })
}

// watchHosts shows each host, and each change of one, until that is enough. An API server
// closes a watch that it finds slow, as on a busy machine: then all are shown once more.
func (w *world) watchHosts(ctx context.Context, see func(*infrav1.ScalewayAppleSiliconHost) (enough bool)) error {
	ctx, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	for {
		watch, err := w.client.Watch(ctx, &infrav1.ScalewayAppleSiliconHostList{})
		if err != nil {
			return fmt.Errorf("watching hosts: %w", err)
		}
		for event := range watch.ResultChan() {
			if h, is := event.Object.(*infrav1.ScalewayAppleSiliconHost); is && see(h) {
				watch.Stop()
				return nil
			}
		}
		watch.Stop()
		if ctx.Err() != nil {
			return fmt.Errorf("watching hosts: %w", ctx.Err())
		}
		say("the API server closed the watch of hosts; watching again")
	}
}
