package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// deadMac is a fleet whose first Machine says that its Node is Ready, which is silent.
func deadMac(paused bool) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		m := &s.Machines[0]
		if paused {
			m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", LastTransitionTime: clitest.Ago(time.Hour)}}
		s.Nodes = []corev1.Node{node}
		s.Clusters = []clusterv1.Cluster{{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: "macfleet"}}}
		check := clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: "check", Annotations: map[string]string{clusterv1.PausedAnnotation: ""}}}
		check.Spec.ClusterName = "macfleet"
		s.HealthChecks = []clusterv1.MachineHealthCheck{check}
	}
}

// Nodes are read where a Machine's own word for its Node is old, and only there.
func TestVerbsLookAtTheNodesOfPausedMachines(t *testing.T) {
	here := map[string]any{"/api/v1/namespaces/kube-system": corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "here"}}}
	const rejoin = "cluster rejoin macfleet -n macfleet-system --end --yes"
	for name, c := range map[string]struct {
		args    string
		running bool
		hidden  bool
		code    int
		out     string
		not     string
		asks    bool
	}{
		"status":                         {args: "status", out: "NodeUnreachable: Node macfleet-builders-x7k2p-00001 is not heard of, as", asks: true},
		"Machines":                       {args: "machines", out: "NodeUnreachable: Node macfleet-builders-x7k2p-00001 is not heard of, as", asks: true},
		"Machines, Nodes not to be seen": {args: "machines", hidden: true, code: exitPartly, out: "Paused", not: "NodeUnreachable", asks: true},
		"status, none paused":            {args: "status", running: true, out: "POOL", not: "NodeUnreachable"},
		"Machines, none paused":          {args: "machines", running: true, out: "Running", not: "NodeUnreachable"},
		"a story":                        {args: "explain machine macfleet-builders-x7k2p-00001", out: "nobody looks at it while it is paused", not: "the Node is Ready"},
		"rejoin":                         {args: rejoin, out: "(6): macfleet-builders-x7k2p-00001", asks: true},
		"rejoin, Nodes not to be seen":   {args: rejoin, hidden: true, out: "(5): macfleet-builders-x7k2p-00002", asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fleetServer{change: deadMac(!c.running), objects: here}
			if c.hidden {
				f.codes = map[string]int{"nodes": 403}
			}
			speakTo(t, f)
			var out, errs bytes.Buffer
			code := run(t.Context(), strings.Fields(c.args), &out, &errs)
			if code != c.code || !strings.Contains(out.String()+errs.String(), c.out) || c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("exit code %d, want %d\n%s\n%s", code, c.code, &out, &errs)
			}
			if slices.Contains(f.paths, "/api/v1/nodes") != c.asks && !strings.HasPrefix(c.args, "explain") {
				t.Errorf("asked for %v", f.paths)
			}
		})
	}
}
