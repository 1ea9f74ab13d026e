package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/helm"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestHelmWaitsForMacs: with a manager, helm's --wait ends when the Macs that are asked for
// are nodes, and not before. More than there are fails by the fleet's name after its time,
// harms none that is there, and can be taken back.
func TestHelmWaitsForMacs(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 2})
	f.awaitPool(2)
	upgrade := []string{"upgrade", "macfleet", filepath.Join("..", "..", "charts", "macfleet"), "--values", filepath.Join("..", "..", "sandbox", "world", "values.yaml")}

	// The sandbox has applied the chart already: the release begins with what is there.
	// Only the MachineDeployment changes: until the manager has seen it, the profile is as
	// Ready as it was, and helm does not wait. So it waits once the manager has.
	one := []string{"--timeout", patience.String(), "--set", "fleets.builders.replicas=1"}
	f.helm(slices.Concat(upgrade, one, []string{"--install", "--take-ownership", "--force-conflicts"})...)
	f.await("the profile to miss the Mac that is asked for", func() (string, bool) {
		says, missed := f.profileSays(infrav1.ReadyCondition, metav1.ConditionFalse)
		return says, missed || f.readyNodes() == 1
	})
	f.helm(slices.Concat(upgrade, one, []string{"--wait"})...)
	f.Logf("helm --wait ended %s after the Mac was a Node that is Ready", f.readyFor().Round(time.Second))
	if ready := f.readyNodes(); ready != 1 {
		t.Errorf("helm --wait ended with %d Nodes that are Ready, want 1", ready)
	}

	// Again, where it ended before the manager had seen that there are to be three.
	said := ""
	f.await("helm --wait for three of two Macs to fail", func() (string, bool) {
		var err error
		said, err = f.tryHelm(slices.Concat(upgrade, []string{"--wait", "--timeout", "20s", "--set", "fleets.builders.replicas=3"})...)
		return said, err != nil
	})
	if !strings.Contains(said, "MacNodeProfile/macfleet-system/macfleet-builders not ready") {
		t.Errorf("helm --wait for three of two Macs fails with: %s", said)
	}
	f.await("the two Macs that there are", func() (string, bool) { return f.phases(), f.readyNodes() == 2 })

	f.helm("rollback", "macfleet", "1", "--wait", "--timeout", patience.String())
	f.awaitRunning(1)
	f.awaitPool(1)
	if deletions := f.calls("DeleteServer"); len(deletions) != 0 {
		t.Errorf("servers were deleted: %v", deletions)
	}
}

// helm runs the chart's own helm in the namespace of the sandbox.
func (f *fleet) helm(args ...string) {
	f.Helper()
	if said, err := f.tryHelm(args...); err != nil {
		f.Fatalf("helm %q: %v\n%s", args, err, said)
	}
}

func (f *fleet) tryHelm(args ...string) (said string, err error) {
	f.Helper()
	out, err := f.helmIn(world.Namespace, args...).CombinedOutput()
	return string(out), err
}

func (f *fleet) helmIn(namespace string, args ...string) *exec.Cmd {
	f.Helper()
	binary, err := helm.Binary(filepath.Join("..", ".."))
	if err != nil {
		f.Fatal(err)
	}
	return exec.CommandContext(f.Context(), binary, append(args, "--namespace", namespace, "--kubeconfig", f.world.Kubeconfig())...)
}

// readyFor is for how long all Nodes have been Ready that are.
func (f *fleet) readyFor() time.Duration {
	f.Helper()
	var last time.Time
	for _, node := range f.nodes() {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(last) {
				last = c.LastTransitionTime.Time
			}
		}
	}
	return time.Since(last)
}

// readyNodes counts the Nodes that are Ready.
func (f *fleet) readyNodes() int {
	f.Helper()
	ready := 0
	for _, node := range f.nodes() {
		for _, c := range node.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				ready++
			}
		}
	}
	return ready
}
