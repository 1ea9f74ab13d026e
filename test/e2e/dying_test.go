package e2e

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestMacsDieAtEachStep deletes servers at the vendor while they are claimed, set
// up, in use and wiped. Whoever lost one takes another or says what it lost, every
// deletion ends, and nothing remains of the dead.
func TestMacsDieAtEachStep(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 6})
	f.awaitPool(6)

	f.scale(2)
	claimed := f.killNext("claimed", func(id, owner string) bool { return f.server(id).Name == owner })
	pushed := f.killNext("set up", func(id, _ string) bool { return id != claimed && f.pinned(id) })
	f.awaitRunning(2)
	f.await("no Host of the dead", func() (string, bool) {
		owners := f.owners()
		return f.phases(), len(f.hosts()) == 4 && owners[claimed] == "" && owners[pushed] == ""
	})

	owners := f.owners()
	used := f.killNext("in use", func(string, string) bool { return true })
	lost := owners[used]
	f.awaitLoss(lost)
	f.deleteMachine(lost)
	f.await("the Machine of the dead Mac to end", func() (string, bool) {
		err := f.client.Get(f.Context(), client.ObjectKey{Namespace: world.Namespace, Name: lost}, &infrav1.ScalewayAppleSiliconMachine{})
		return fmt.Sprint(err), apierrors.IsNotFound(err)
	})
	f.awaitRunning(2)

	f.endReinstalls(scaleway.EndsNever) // or a busy machine sees none
	f.scale(0)
	wiped := f.killNext("wiped", func(id, _ string) bool { return f.server(id).Status == "reinstalling" })
	f.endReinstalls(scaleway.EndsWell)
	f.await("only the living in the pool, and no Host of the dead", func() (string, bool) {
		return f.phases(), len(f.hosts()) == 2 && f.inPhase(infrav1.HostAvailable) == 2
	})
	if nodes, machines := len(f.nodes()), len(f.infraMachines()); nodes+machines != 0 {
		t.Errorf("%d Nodes and %d Machines are left", nodes, machines)
	}
	for _, dead := range []string{claimed, pushed, used, wiped} {
		if _, there := f.world.Vendor().Server(dead); there {
			t.Errorf("server %s is there again", dead)
		}
	}
	if orders := f.calls("CreateServer"); len(orders) != 0 {
		t.Errorf("servers were ordered: %v", orders)
	}
}

// killNext deletes, at the vendor, the first claimed server that a test picks.
func (f *fleet) killNext(what string, picks func(id, owner string) bool) string {
	f.Helper()
	killed := ""
	f.await("a Mac being "+what, func() (string, bool) {
		owners := f.owners()
		for id, owner := range owners {
			if _, there := f.world.Vendor().Server(id); there && picks(id, owner) {
				killed = id
				return id, true
			}
		}
		return fmt.Sprint(owners), false
	})
	if !f.world.Vendor().Remove(killed) {
		f.Fatalf("server %s was gone already", killed)
	}
	return killed
}

// pinned reports that a push has met the Mac: its key is pinned.
func (f *fleet) pinned(id string) bool {
	f.Helper()
	for _, host := range f.hosts() {
		if host.Spec.ServerID == id {
			return host.Spec.Record.HostKey != nil
		}
	}
	return false
}

// awaitLoss waits until the Machine says that its server is gone, and its Node is.
func (f *fleet) awaitLoss(machine string) {
	f.Helper()
	f.await("Machine "+machine+" to say that its server is gone", func() (string, bool) {
		for _, node := range f.nodes() {
			if node.Name == machine {
				return "its Node is there", false
			}
		}
		for _, m := range f.infraMachines() {
			if m.Name != machine {
				continue
			}
			c := meta.FindStatusCondition(m.Status.Conditions, infrav1.HostClaimedCondition)
			return fmt.Sprintf("%+v", c), c != nil && c.Reason == infrav1.ReasonServerGone
		}
		return "no Machine", false
	})
}
