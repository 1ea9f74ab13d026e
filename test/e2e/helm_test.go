package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
	upgrade := []string{"upgrade", "macfleet", filepath.Join("..", "..", "charts", "macfleet"), "--values", filepath.Join("..", "..", "sandbox", "world", "values.yaml"), "--wait"}

	// The sandbox has applied the chart already: the release begins with what is there.
	f.helm(append(upgrade, "--install", "--take-ownership", "--force-conflicts", "--timeout", patience.String(), "--set", "fleets.builders.replicas=1")...)
	if ready := f.readyNodes(); ready != 1 {
		t.Errorf("helm --wait ended with %d Nodes that are Ready, want 1", ready)
	}

	said, err := f.tryHelm(append(upgrade, "--timeout", "20s", "--set", "fleets.builders.replicas=3")...)
	if err == nil || !strings.Contains(said, "MacNodeProfile/macfleet-system/macfleet-builders not ready") {
		t.Errorf("helm --wait for three of two Macs: %v\n%s", err, said)
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
	binary, err := helm.Binary(filepath.Join("..", ".."))
	if err != nil {
		f.Fatal(err)
	}
	args = append(args, "--namespace", world.Namespace, "--kubeconfig", f.world.Kubeconfig())
	out, err := exec.CommandContext(f.Context(), binary, args...).CombinedOutput()
	return string(out), err
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
