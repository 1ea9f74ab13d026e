package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/test/parttest"
)

// soon is how long after its Macs are Nodes helm may go on: far above the quarter of a minute
// that it takes, for a busy machine.
const soon = time.Minute

// TestHelmInstallsAndGivesBackMacs: in a cluster that never had macfleet, helm install --wait ends
// soon after the Mac is a node, and not before. helm uninstall --wait deletes nothing while
// a Mac cannot be wiped, says so, and ends once all are back in the pool.
func TestHelmInstallsAndGivesBackMacs(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, bare())
	r := f.firstRelease()
	r.prepares(f.newWalk())
	f.order(2)

	end := r.installs(1, "--timeout", patience.String())
	if end.err != nil {
		t.Fatalf("helm install --wait: %v\n%s", end.err, end.said)
	}
	f.endedSoonAfter(end, 1)
	f.readCoreRole()
	f.runHooks()

	f.endReinstalls(scaleway.EndsInError)
	r.scaleTo(0)
	end = r.uninstalls()
	t.Logf("helm uninstall --wait with a Mac that cannot be wiped: %v\n%s", end.err, end.said)
	if said := r.uninstallSaid(); end.err == nil || !strings.Contains(end.said, "macfleet-uninstall") || !strings.Contains(said, "could not be wiped, and waits for a person") {
		t.Errorf("helm uninstall with a Mac that cannot be wiped: %v, and its Job %q", end.err, said)
	}
	f.profile() // it is there
	if len(r.managerPods()) == 0 {
		t.Error("the manager is deleted before all Macs are back")
	}

	f.endReinstalls(scaleway.EndsWell)
	for _, h := range f.hosts() {
		if h.Spec.Quarantine != nil {
			f.kubectl("patch", "sash", h.Name, "--type=merge", "-p", `{"spec":{"quarantine":null}}`)
		}
	}
	if end = r.uninstalls(); end.err != nil {
		t.Fatalf("helm uninstall --wait: %v\n%s", end.err, end.said)
	}
	if f.inPhase(infrav1.HostAvailable) != 2 {
		t.Errorf("the release is gone before all Macs are back: %s", f.phases())
	}
	var left clusterv1.MachineDeploymentList
	if f.list(&left); len(left.Items) > 0 || len(r.managerPods()) > 0 {
		t.Errorf("helm uninstall --wait leaves %v and %d Pods", f.names(&left), len(r.managerPods()))
	}
}

// TestTwoReleasesInOneCluster: two teams, each with a namespace and a manager of its own, share
// a pool. None takes a Mac of the other's, more than there are fails by the name of the fleet that
// asks for them, and what one gives back the other gets, wiped.
func TestTwoReleasesInOneCluster(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, bare())
	ours, theirs := f.firstRelease(), f.secondRelease()
	w := f.newWalk()
	ours.prepares(w)
	theirs.prepares(w)
	f.order(3)

	end := ours.installs(2, "--timeout", patience.String())
	if end.err != nil {
		t.Fatalf("helm install --wait: %v\n%s", end.err, end.said)
	}
	f.endedSoonAfter(end, 2)
	f.readCoreRole()
	f.runHooks()

	// Two Macs where one is left.
	end = theirs.installs(2, "--set", "runtimeClass.enabled=false", "--timeout", "45s")
	if end.err == nil || !strings.Contains(end.said, "MacNodeProfile/other-system/other-macfleet-builders not ready") {
		t.Errorf("helm install --wait for two Macs where one is left: %v\n%s", end.err, end.said)
	}
	f.await("their one Mac", func() (string, bool) { return f.phases(), f.readyNodes() == 3 && len(theirs.macs()) == 1 })

	// One of ours goes to them, by way of the pool.
	ours.scaleTo(1)
	end = theirs.runHelm("upgrade", "other", filepath.Join("..", "..", "charts", "macfleet"), "--reset-then-reuse-values", "--wait", "--timeout", patience.String())
	if end.err != nil {
		t.Fatalf("helm upgrade --wait of the second release: %v\n%s", end.err, end.said)
	}
	f.endedSoonAfter(end, 3)
	if len(ours.macs()) != 1 || len(theirs.macs()) != 2 {
		t.Fatalf("%q are ours and %q theirs", ours.macs(), theirs.macs())
	}
	kept, mark := f.server(ours.macs()[0]), f.mark()

	theirs.scaleTo(0)
	if end = theirs.uninstalls(); end.err != nil {
		t.Fatalf("helm uninstall --wait of the second release: %v\n%s", end.err, end.said)
	}
	if f.inPhase(infrav1.HostAvailable) != 2 {
		t.Errorf("the second release is gone before its Macs are back: %s", f.phases())
	}
	f.awaitRunning(1)
	f.checkUntouched(kept, mark)
	f.keptToTheirOwn()
}

// keptToTheirOwn: neither manager has worked at what is the other's.
func (f *fleet) keptToTheirOwn() {
	f.Helper()
	for n := range f.world.Managers() {
		log, err := os.ReadFile(filepath.Join(f.dir, "logs", fmt.Sprintf("manager-%d.log", n+1)))
		if err != nil {
			f.Fatal(err)
		}
		if strings.Contains(string(log), "unknown namespace for the cache") {
			f.Errorf("manager %d works at Macs of another namespace", n+1)
		}
	}
}

// endedSoonAfter: helm ended with so many Nodes, all Ready, and not long after.
func (f *fleet) endedSoonAfter(end helmEnd, macs int) {
	f.Helper()
	if ready := f.readyNodes(); ready != macs {
		f.Errorf("helm --wait ended with %d Nodes that are Ready, want %d", ready, macs)
		return
	}
	waited := f.readyFor() - time.Since(end.at)
	f.Logf("helm --wait ended %s after the last Mac was a Node that is Ready", waited.Round(time.Second))
	if waited > soon {
		f.Errorf("helm --wait ended %s after the last Mac was a Node that is Ready, want %s at most", waited, soon)
	}
}
