package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func newStatus(flags *sandboxFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Hosts, Machines, Nodes and Pods of the sandbox, on one screen",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			running, err := flags.running()
			if err != nil {
				return err
			}
			c, err := newClient(running.Kubeconfig)
			if err != nil {
				return err
			}
			// Where to look comes first: the API server may be what is away.
			fmt.Fprintf(cmd.OutOrStdout(), "kubeconfig  %s\nvendor      %s\nmetrics     %s\nssh port    %d\nmanager     %s\n\n",
				running.Kubeconfig, running.VendorURL, running.MetricsURL, running.SSHPort, managerNow(cmd.Context(), running.ReadyURL))
			now, err := look(cmd.Context(), c)
			if err != nil {
				return err
			}
			return now.print(cmd.OutOrStdout())
		},
	}
}

// managerPatience is how long a manager may take to say that it runs.
const managerPatience = 2 * time.Second

// managerNow says whether the manager runs: whether it answers at ready.
func managerNow(ctx context.Context, ready string) string {
	ctx, cancel := context.WithTimeout(ctx, managerPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, ready, nil)
	if err != nil {
		return "unknown: " + oneLine(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "does not run, and is started again until it does: logs/manager-1.log and logs/sandbox.log say why"
	}
	defer response.Body.Close()
	return "runs"
}

// print prints four tables.
func (s snapshot) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")) }

	row("HOST", "PHASE", "SERVER", "TYPE", "OS", "IP")
	for _, h := range sortedBy(s.hosts, func(h infrav1.ScalewayAppleSiliconHost) string { return h.Status.Server.Name }) {
		server := h.Status.Server
		row(h.Name, string(h.Status.Phase), server.Name, server.Type, server.OSFamily, server.IP)
	}
	row("")
	row("MACHINE", "PHASE", "AVAILABLE", "NODE", "WHY NOT")
	for _, m := range sortedBy(s.machines, func(m clusterv1.Machine) string { return m.Name }) {
		row(m.Name, m.Status.Phase, yes(available(m)), m.Status.NodeRef.Name, s.whyNotReady(m.Name))
	}
	row("")
	row("NODE", "READY", "KUBELET", "ADDRESS")
	for _, n := range sortedBy(s.nodes, func(n corev1.Node) string { return n.Name }) {
		row(n.Name, yes(nodeReady(n)), n.Status.NodeInfo.KubeletVersion, nodeAddress(n))
	}
	row("")
	row("POD", "PHASE", "READY", "NODE", "WHY NOT")
	for _, p := range sortedBy(s.pods, func(p corev1.Pod) string { return p.Namespace + "/" + p.Name }) {
		row(p.Namespace+"/"+p.Name, string(p.Status.Phase), yes(podReady(p)), p.Spec.NodeName, whyNotRunning(p))
	}
	return table.Flush()
}

// whyNotReady is what a Mac that is not Ready says, and what its remediation says,
// which bears its name.
func (s snapshot) whyNotReady(name string) string {
	var why []string
	note := func(of []metav1.Condition, kind string) {
		if c := meta.FindStatusCondition(of, kind); c != nil && c.Status != metav1.ConditionTrue {
			why = append(why, strings.TrimSuffix(c.Reason+": "+c.Message, ": "))
		}
	}
	for _, mac := range s.macs {
		if mac.Name == name {
			note(mac.Status.Conditions, infrav1.ReadyCondition)
		}
	}
	for _, r := range s.mending {
		if r.Name == name {
			note(r.Status.Conditions, infrav1.RemediatedCondition)
		}
	}
	return strings.Join(why, "; ")
}

// whyNotRunning is what keeps a Pod from running.
func whyNotRunning(pod corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Waiting != nil {
			return status.State.Waiting.Reason
		}
	}
	if pod.Status.Reason != "" {
		return pod.Status.Reason + ": " + pod.Status.Message
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

func sortedBy[T any](items []T, key func(T) string) []T {
	sorted := slices.Clone(items)
	slices.SortFunc(sorted, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return sorted
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func nodeReady(node corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func nodeAddress(node corev1.Node) string {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	return ""
}
