package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/cluster"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/sandbox/world"
)

// newClient talks to the sandbox's API server as its administrator.
func newClient(kubeconfig string) (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the sandbox's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	return cluster.NewClient(config)
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

// look reads what the demo waits for.
func look(ctx context.Context, c client.Client) (*snapshot.Snapshot, error) {
	s, err := snapshot.Load(ctx, c, metav1.NamespaceAll, snapshot.Hosts, snapshot.CoreMachines, snapshot.Profiles, snapshot.Nodes, snapshot.Pods)
	if err != nil {
		return nil, fmt.Errorf("reading from the sandbox's API server: %w", err)
	}
	return s, nil
}

// inPhase counts the hosts in a phase.
func inPhase(s *snapshot.Snapshot, phase infrav1.HostPhase) int {
	n := 0
	for i := range s.Hosts {
		if s.Hosts[i].Status.Phase == phase {
			n++
		}
	}
	return n
}

// runningMachines counts Machines that are Running, Available, and bound to a Node.
func runningMachines(s *snapshot.Snapshot) int {
	n := 0
	for _, machine := range s.CoreMachines {
		available := meta.IsStatusConditionTrue(machine.Status.Conditions, clusterv1.MachineAvailableCondition)
		if machine.Status.Phase == string(clusterv1.MachinePhaseRunning) && machine.Status.NodeRef.Name != "" && available {
			n++
		}
	}
	return n
}

// podsReady counts ready Pods of the demo.
func podsReady(s *snapshot.Snapshot) int {
	n := 0
	for _, pod := range s.Pods {
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
