package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
)

// newClient talks to the sandbox's API server as its administrator.
func newClient(kubeconfig string) (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the sandbox's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// scaleFleet sets how many Macs the sandbox's fleet has.
func scaleFleet(ctx context.Context, c client.Client, replicas int) error {
	fleet := &clusterv1.MachineDeployment{}
	fleet.Namespace, fleet.Name = world.Namespace, world.Fleet
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := c.Patch(ctx, fleet, patch); err != nil {
		return fmt.Errorf("scaling fleet %s to %d: %w", world.Fleet, replicas, err)
	}
	return nil
}

// snapshot is what the fleet looks like at one moment.
type snapshot struct {
	hosts    []infrav1.ScalewayAppleSiliconHost
	macs     []infrav1.ScalewayAppleSiliconMachine
	machines []clusterv1.Machine
	nodes    []corev1.Node
	pods     []corev1.Pod
	clusters []infrav1.ScalewayAppleSiliconCluster
	mending  []infrav1.ScalewayAppleSiliconRemediation
}

func look(ctx context.Context, c client.Client) (snapshot, error) {
	var (
		hosts    infrav1.ScalewayAppleSiliconHostList
		macs     infrav1.ScalewayAppleSiliconMachineList
		machines clusterv1.MachineList
		nodes    corev1.NodeList
		pods     corev1.PodList
		mending  infrav1.ScalewayAppleSiliconRemediationList
		clusters infrav1.ScalewayAppleSiliconClusterList
	)
	for _, list := range []struct {
		what    client.ObjectList
		options []client.ListOption
	}{
		{&hosts, nil},
		{&macs, []client.ListOption{client.InNamespace(world.Namespace)}},
		{&machines, []client.ListOption{client.InNamespace(world.Namespace)}},
		{&nodes, nil},
		{&pods, nil},
		{&clusters, []client.ListOption{client.InNamespace(world.Namespace)}},
		{&mending, []client.ListOption{client.InNamespace(world.Namespace)}},
	} {
		if err := c.List(ctx, list.what, list.options...); err != nil {
			return snapshot{}, fmt.Errorf("reading from the sandbox's API server: %w", err)
		}
	}
	return snapshot{hosts: hosts.Items, macs: macs.Items, machines: machines.Items, nodes: nodes.Items, pods: pods.Items, mending: mending.Items, clusters: clusters.Items}, nil
}

// phases counts the hosts in a phase.
func (s snapshot) phase(phase infrav1.HostPhase) int {
	n := 0
	for _, host := range s.hosts {
		if host.Status.Phase == phase {
			n++
		}
	}
	return n
}

// running counts Machines that are Running, Available, and bound to a Node.
func (s snapshot) running() int {
	n := 0
	for _, machine := range s.machines {
		if machine.Status.Phase == string(clusterv1.MachinePhaseRunning) && machine.Status.NodeRef.Name != "" && available(machine) {
			n++
		}
	}
	return n
}

func available(machine clusterv1.Machine) bool {
	for _, condition := range machine.Status.Conditions {
		if condition.Type == clusterv1.MachineAvailableCondition {
			return condition.Status == "True"
		}
	}
	return false
}

// podsReady counts ready Pods of the demo.
func (s snapshot) podsReady() int {
	n := 0
	for _, pod := range s.pods {
		if pod.Labels["app"] == demoApp && podReady(pod) {
			n++
		}
	}
	return n
}

func podReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// checkPort refuses a port that somebody listens on.
func checkPort(port int) error {
	if port == 0 {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d is taken: give another --port, or leave it out: %w", port, err)
	}
	return listener.Close()
}
