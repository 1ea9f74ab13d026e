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
	"k8s.io/apimachinery/pkg/types"
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

// trouble is what the fleet's zones say that is not as it should be, a line each: most
// of what waits below waits for that.
func (s snapshot) trouble() []string {
	var lines []string
	for _, cluster := range s.clusters {
		for _, c := range cluster.Status.Conditions {
			healthy := metav1.ConditionTrue
			switch c.Type {
			case infrav1.DestructionHeldCondition, infrav1.PausedCondition:
				healthy = metav1.ConditionFalse
			case infrav1.ReadyCondition:
				continue // it repeats one of the others
			}
			if c.Status != healthy {
				lines = append(lines, fmt.Sprintf("%s  %s is %s since %s: %s: %s", cluster.Name, c.Type, c.Status, c.LastTransitionTime.UTC().Format(time.RFC3339), c.Reason, c.Message))
			}
		}
	}
	return lines
}

// print prints what is wrong with the zones, and four tables.
func (s snapshot) print(out io.Writer) error {
	for i, line := range s.trouble() {
		if i == 0 {
			fmt.Fprintln(out, "THE VENDOR, AND WHAT IS HELD")
		}
		fmt.Fprintln(out, line)
	}
	if len(s.trouble()) > 0 {
		fmt.Fprintln(out)
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")) }

	row("HOST", "PHASE", "SERVER", "TYPE", "OS", "IP", "KEPT OUT")
	for _, h := range sortedBy(s.hosts, func(h infrav1.ScalewayAppleSiliconHost) string { return h.Status.Server.Name }) {
		server := h.Status.Server
		row(h.Name, string(h.Status.Phase), server.Name, server.Type, server.OSFamily, server.IP, keptOut(h))
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
	for _, cells := range podRows(s.pods) {
		row(cells...)
	}
	return table.Flush()
}

const (
	// manyPods of one controller that wait for the same share a line.
	manyPods = 4
	// longestWhy keeps a Pod on one line.
	longestWhy = 60
)

// keptOut is why a host stays out of the pool, if it does, also while a Machine has it.
func keptOut(h infrav1.ScalewayAppleSiliconHost) string {
	if c := meta.FindStatusCondition(h.Status.Conditions, infrav1.KeptOutCondition); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason
	}
	return ""
}

// podRows has a row for each Pod, and one for all Pods of a controller that wait for
// the same, unbound, where they are many.
func podRows(pods []corev1.Pod) [][]string {
	type group struct {
		owner types.UID
		why   string
	}
	of := func(p corev1.Pod) (group, bool) {
		owner := metav1.GetControllerOf(&p)
		if owner == nil || p.Spec.NodeName != "" || p.Status.Phase != corev1.PodPending {
			return group{}, false
		}
		return group{owner.UID, whyNotRunning(p)}, true
	}
	sizes := map[group]int{}
	for _, p := range pods {
		if g, grouped := of(p); grouped {
			sizes[g]++
		}
	}
	var rows [][]string
	for _, p := range sortedBy(pods, func(p corev1.Pod) string { return p.Namespace + "/" + p.Name }) {
		name := p.Namespace + "/" + p.Name
		if g, grouped := of(p); grouped && sizes[g] >= manyPods {
			name = fmt.Sprintf("%s and %d more", name, sizes[g]-1)
			sizes[g] = -1 // told
		} else if grouped && sizes[g] < 0 {
			continue
		}
		rows = append(rows, []string{name, string(p.Status.Phase), yes(podReady(p)), p.Spec.NodeName, inShort(whyNotRunning(p))})
	}
	return rows
}

// inShort is the first sentence of a message, cut where it is too long for a line:
// `kubectl describe` has the rest.
func inShort(why string) string {
	why, _, _ = strings.Cut(strings.Join(strings.Fields(why), " "), ". ")
	if runes := []rune(why); len(runes) > longestWhy {
		return string(runes[:longestWhy-1]) + "…"
	}
	return why
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
