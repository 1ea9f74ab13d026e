package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestExits lets Machines go in the ways that leave the vendor alone, and then takes
// a stranded Mac back. One sandbox: each way out must leave the others' Macs alone.
func TestExits(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 4, ManagerArgs: []string{
		"--orphan-reclaim-interval=2s", "--orphan-reclaim-after=4s", "--orphan-reclaim-claim-name-prefix=" + world.Fleet + "-",
	}})
	f.awaitPool(4)
	f.scale(1)
	f.awaitRunning(1)

	t.Run("TestRequirement002_TheRecipeTouchesNothing", func(t *testing.T) { f.on(t).recipe() })
	t.Run("detach", func(t *testing.T) { f.on(t).detach() })
	t.Run("TestRequirement001_StrandedAndReclaimed", func(t *testing.T) { f.on(t).strandAndReclaim() })
}

// recipe is requirement 002's, as an operator types it: pause the infra machine,
// empty its serverID, delete the Machine.
func (f *fleet) recipe() {
	id := f.onlyOwned()
	before := f.server(id)
	mark, orders := f.mark(), f.orders(id)
	if orders == 0 {
		f.Fatal("the Mac obeyed no command at its bootstrap: a later one would not be seen either")
	}
	machine := f.infraMachines()[0]
	f.annotate(clusterv1.PausedAnnotation, "true")
	empty := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"serverID":""}}`))
	if err := f.client.Status().Patch(f.Context(), &machine, empty); err != nil {
		f.Fatalf("emptying status.serverID: %v", err)
	}
	f.deleteMachine(machine.Name)
	f.awaitAnother(id, machine.Name)
	f.checkUntouched(before, mark)
	if now := f.orders(id); now != orders {
		f.Errorf("the Mac was touched: it obeyed %d commands, %d before", now, orders)
	}
	f.awaitPhase(id, infrav1.HostForeign)
}

// detach is the policy that lets a Mac go as it is; its agent is told to leave.
func (f *fleet) detach() {
	id := f.onlyOwned()
	before := f.server(id)
	mark := f.mark()
	machine := f.infraMachines()[0].Name
	f.annotate(infrav1.ReleasePolicyAnnotation, "Detach")
	f.deleteMachine(machine)
	f.awaitAnother(id, machine)
	f.checkUntouched(before, mark)
	f.awaitPhase(id, infrav1.HostForeign)
	f.checkLeft(id)
}

// checkLeft expects that the Mac took the manager's word to leave: it keeps the report
// of what it did, and none of what it refused.
func (f *fleet) checkLeft(id string) {
	machine, found := f.world.Mac(id)
	if !found {
		f.Fatalf("no Mac behind server %s", id)
	}
	data, err := os.ReadFile(filepath.Join(machine.Root(), "private", document.ReportFile))
	if err != nil {
		f.Fatal(err)
	}
	report, err := document.DecodeReport(data)
	if step, failed := report.FailedStep(); err != nil || failed || report.Verb != document.VerbLeave || report.Exit != document.ExitChanged {
		f.Errorf("the Mac's last run is %s, exit %d, step %s: %s (%v)", report.Verb, report.Exit, step.Name, step.Detail, err)
	}
	if _, err := os.Stat(filepath.Join(machine.Root(), document.AgentPlist)); !errors.Is(err, fs.ErrNotExist) {
		f.Errorf("the agent's job is still there (%v)", err)
	}
}

// strandAndReclaim bypasses the finalizer while no manager looks. The Mac is
// stranded, not wiped at once; the sweep, which is turned on here, takes it back,
// and leaves the Macs alone that were detached before.
func (f *fleet) strandAndReclaim() {
	id := f.onlyOwned()
	machine := f.infraMachines()[0]
	if err := f.world.KillManager(0); err != nil {
		f.Fatal(err)
	}
	f.deleteMachine(machine.Name)
	f.await("the infra machine to be deleted", func() (string, bool) {
		err := f.client.Get(f.Context(), client.ObjectKeyFromObject(&machine), &machine)
		return fmt.Sprint(err, machine.DeletionTimestamp), err == nil && machine.DeletionTimestamp != nil
	})
	bare := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := f.client.Patch(f.Context(), &machine, bare); err != nil {
		f.Fatalf("taking the finalizer off: %v", err)
	}
	mark := f.mark()
	if err := f.world.StartManager(f.Context(), 0); err != nil {
		f.Fatal(err)
	}
	f.awaitAnother(id, machine.Name)
	f.await("the stranded Mac back in the pool", func() (string, bool) {
		server := f.server(id)
		return server.Name + " " + string(server.Status), server.Name == world.PoolPrefix+id && server.Status == scaleway.StatusReady
	})
	f.awaitPhase(id, infrav1.HostAvailable)
	if server := f.server(id); server.Installs != 2 {
		f.Errorf("the stranded Mac was installed %d times, want 2: delivery and one wipe", server.Installs)
	}
	for _, entry := range f.world.Vendor().Journal(mark) {
		if entry.Call == "ReinstallServer" && entry.ServerID != id {
			f.Errorf("another Mac was wiped: %+v", entry)
		}
	}
	if foreign := f.inPhase(infrav1.HostForeign); foreign != 2 {
		f.Errorf("%d Foreign hosts, want the two that were detached: %s", foreign, f.phases())
	}
}

// mark is the vendor's journal as it stands.
func (f *fleet) mark() int64 {
	journal := f.world.Vendor().Journal(0)
	return journal[len(journal)-1].Seq
}

// orders counts the commands on a Mac that change it, and that only we give.
func (f *fleet) orders(id string) int {
	f.Helper()
	machine, found := f.world.Mac(id)
	if !found {
		f.Fatalf("no Mac behind server %s", id)
	}
	n := 0
	for _, execution := range machine.Transcript() {
		// hostd asks launchd each minute by itself; only who comes from outside needs sudo.
		if filepath.Base(execution.Argv[0]) == "sudo" {
			n++
		}
	}
	return n
}

func (f *fleet) deleteMachine(name string) {
	f.Helper()
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: name}}
	if err := f.client.Delete(f.Context(), machine); err != nil {
		f.Fatalf("deleting Machine %s: %v", name, err)
	}
}

// awaitAnother waits until the Machine and its Node are gone, and another Machine
// runs on another Mac.
func (f *fleet) awaitAnother(id, machine string) {
	f.Helper()
	f.await("another Machine on another Mac", func() (string, bool) {
		gone := !slices.ContainsFunc(f.infraMachines(), func(m infrav1.ScalewayAppleSiliconMachine) bool { return m.Name == machine })
		for _, node := range f.nodes() {
			gone = gone && node.Name != machine
		}
		owners := f.owners()
		_, still := owners[id]
		return fmt.Sprintf("gone: %v, owners %v", gone, owners), gone && !still && len(owners) == 1
	})
	f.awaitRunning(1)
}

func (f *fleet) awaitPhase(id string, phase infrav1.HostPhase) {
	f.Helper()
	f.await(fmt.Sprintf("host of %s to be %s", id, phase), func() (string, bool) {
		for _, host := range f.hosts() {
			if host.Spec.ServerID == id {
				return string(host.Status.Phase), host.Status.Phase == phase && host.Spec.ClaimRef == nil
			}
		}
		return "no Host", false
	})
}

// checkUntouched: the vendor was asked for nothing about the server since.
func (f *fleet) checkUntouched(before scaleway.Server, mark int64) {
	f.Helper()
	after := f.server(before.ID)
	if after.Name != before.Name || after.Installs != before.Installs || after.Status != before.Status {
		f.Errorf("the server was touched: %+v, was %+v", after, before)
	}
	for _, entry := range f.world.Vendor().Journal(mark) {
		if entry.ServerID == before.ID && entry.Method != http.MethodGet {
			f.Errorf("the vendor was asked for %s %d", entry.Call, entry.Status)
		}
	}
}
