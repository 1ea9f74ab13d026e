package e2e

import (
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// trouble is what alerts speak of, in a sandbox with five Macs and three Machines.
type trouble struct {
	// name is that of its first alert, unless another trouble has that.
	name string
	// alerts all fire, each named first for what it is of its own.
	alerts []string
	// beside may fire as well: what follows from the trouble, sooner or later.
	beside []string
	// stretch is a gauge of seconds that pass faster, too.
	stretch string
	// every is the real time of a step of the watch, if not step.
	every time.Duration
	// begin makes it, and returns what mends it.
	begin func(*fleet) (mend func())
}

// step is the real time of a step of the watch, each of which is 15 seconds to it: ten minutes pass in four seconds.
const step = 100 * time.Millisecond

// vendorStep is slower: rates need several requests within their minutes.
const vendorStep = 400 * time.Millisecond

// troubles are in the order in which the sandbox stands them.
var troubles = []trouble{
	{alerts: []string{"MacBillsForNobody"}, begin: (*fleet).nameAFreeMac},
	{alerts: []string{"MacQuarantined"}, begin: (*fleet).quarantineAMac},
	{alerts: []string{"NoMacIsFree"}, begin: (*fleet).wantTooMany},
	{
		alerts: []string{"MachineIsStuck"}, beside: []string{"NoMacIsFree"},
		stretch: "macfleet_machines_longest_wait_seconds", begin: (*fleet).wantTooMany,
	},
	{alerts: []string{"MacWaitsForAPerson"}, beside: []string{"VendorFails", "VendorCallFails"}, begin: (*fleet).renameAMacThatGoesBack},
	{alerts: []string{"MacUnreachable"}, begin: (*fleet).cutThePowerOfAMac},
	{alerts: []string{"VendorForbids"}, beside: []string{"VendorCredentialsRejected", "VendorFails", "VendorCallFails"}, every: vendorStep, begin: (*fleet).forbidNames},
	{
		alerts: []string{"VendorCredentialsRejected"}, beside: []string{"InventoryUnknown", "DestructionHeld", "VendorFails", "VendorCallFails", "VendorForbids"},
		begin: func(f *fleet) func() {
			return f.vendorFault(scaleway.Fault{Path: ".*", Error: "denied_authentication"})
		},
	},
	{
		alerts: []string{"InventoryUnknown", "DestructionHeld", "VendorFails", "VendorCallFails"}, every: vendorStep,
		begin: func(f *fleet) func() {
			return f.vendorFault(scaleway.Fault{Call: "ListServers", Status: http.StatusServiceUnavailable})
		},
	},
	{alerts: []string{"NobodyCountsTheMacs"}, begin: (*fleet).stopTheManager},
	{alerts: []string{"RolloutHalted"}, begin: (*fleet).rollOutABadAgent},
	{name: "MacLost by its name", alerts: []string{"MacLost"}, begin: (*fleet).renameAMacInUse},
	{alerts: []string{"MacLost"}, begin: (*fleet).loseAMac},
	// Last: recovery reboots that Mac, which holds the storm guard up for an hour that no watch shortens.
	{alerts: []string{"MacLosesSlots"}, begin: (*fleet).leakASlot},
}

// free is the server that no Machine has.
func (f *fleet) free() scaleway.Server {
	f.Helper()
	for _, h := range f.hosts() {
		if h.Status.Phase == infrav1.HostAvailable {
			return f.server(h.Spec.ServerID)
		}
	}
	f.Fatalf("no Mac is free: %s", f.phases())
	return scaleway.Server{}
}

func (f *fleet) nameAFreeMac() func() {
	server := f.free()
	id := server.ID
	f.world.Vendor().Rename(id, "theirs")
	return func() {
		f.world.Vendor().Rename(id, server.Name)
		f.awaitPhase(id, infrav1.HostAvailable)
	}
}

func (f *fleet) quarantineAMac() func() {
	id := f.free().ID
	f.patchHost(id, `{"spec":{"quarantine":{"reason":"fans scream"}}}`)
	return func() {
		f.patchHost(id, `{"spec":{"quarantine":null}}`)
		f.awaitPhase(id, infrav1.HostAvailable)
	}
}

func (f *fleet) patchHost(id, patch string) {
	f.Helper()
	if err := f.client.Patch(f.Context(), f.hostOf(id), client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		f.Fatal(err)
	}
}

// wantTooMany wants a Machine more than there are Macs.
func (f *fleet) wantTooMany() func() {
	f.scale(6)
	return func() {
		f.scale(3)
		f.await("the Macs to be free again", func() (string, bool) { return f.phases(), f.inPhase(infrav1.HostAvailable) == 2 })
		f.awaitRunning(3)
	}
}

// renameAMacThatGoesBack gives a Mac another name at the vendor, while its wipe cannot begin.
func (f *fleet) renameAMacThatGoesBack() func() {
	mend := f.vendorFault(scaleway.Fault{Call: "ReinstallServer", Status: http.StatusServiceUnavailable})
	f.scale(2)
	var id string
	f.await("a Mac that is released", func() (string, bool) {
		for _, h := range f.hosts() {
			if h.Spec.Release != nil {
				id = h.Spec.ServerID
			}
		}
		return f.phases(), id != ""
	})
	name := f.server(id).Name
	f.world.Vendor().Rename(id, "theirs")
	return func() {
		f.world.Vendor().Rename(id, name)
		mend()
		f.awaitPhase(id, infrav1.HostAvailable)
		f.scale(3)
		f.awaitRunning(3)
	}
}

func (f *fleet) cutThePowerOfAMac() func() {
	machine, node := f.aMac()
	if err := machine.Stop(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.awaitUnready(node)
	return func() {
		if err := machine.Start(f.Context()); err != nil {
			f.Fatal(err)
		}
		f.awaitRunning(3)
	}
}

// leakASlot has a guest end and keep its licence, beside a Pod that runs: the Mac cannot be rebooted. The next Pod finds it.
func (f *fleet) leakASlot() func() {
	machine, node := f.aMac()
	f.rootAt(machine, `mkdir -p /var/db/tart-fake && printf %s '{"faults":[{"kind":"slot-leak","times":1}]}' >/var/db/tart-fake/plan.json`)
	short, long, next := f.podOn(node, "short", corev1.RestartPolicyNever), f.podOn(node, "long", corev1.RestartPolicyAlways), f.podOn(node, "next", corev1.RestartPolicyAlways)
	short.Spec.Containers[0].Command = []string{"/usr/bin/true"}
	f.create(short)
	f.create(long)
	f.await("a Pod to end, and another to run", func() (string, bool) {
		var s, l corev1.Pod
		f.get("short", &s)
		f.get("long", &l)
		return describePods([]corev1.Pod{s, l}), s.Status.Phase == corev1.PodSucceeded && podReady(l)
	})
	f.create(next)
	f.await("the Node to say that a licence is leaked", func() (string, bool) {
		healthy := nodeCondition(f.node(node), "LicenseSlotsHealthy")
		return fmt.Sprint(healthy), healthy.Status == corev1.ConditionFalse
	})
	return func() {
		f.deletePods(short, long, next)
		f.await("the Mac to be rebooted", func() (string, bool) {
			healthy := nodeCondition(f.node(node), "LicenseSlotsHealthy")
			return fmt.Sprint(healthy), healthy.Status == corev1.ConditionTrue
		})
		f.awaitRunning(3)
	}
}

// forbidNames takes the right away to name a server, while a Machine wants one.
func (f *fleet) forbidNames() func() {
	mend := f.vendorFault(scaleway.Fault{Call: "UpdateServer", Error: "permissions_denied"})
	f.scale(4)
	return func() {
		mend()
		f.awaitRunning(4)
		f.scale(3)
		f.await("the Mac to be free again", func() (string, bool) { return f.phases(), f.inPhase(infrav1.HostAvailable) == 2 })
	}
}

// vendorFault lets calls fail until it is mended.
func (f *fleet) vendorFault(fault scaleway.Fault) func() {
	f.Helper()
	armed, err := f.world.Vendor().Arm(fault)
	if err != nil {
		f.Fatal(err)
	}
	return func() { f.world.Vendor().Clear(armed.ID) }
}

func (f *fleet) stopTheManager() func() {
	if err := f.world.KillManager(0); err != nil {
		f.Fatal(err)
	}
	return func() {
		if err := f.world.StartManager(f.Context(), 0); err != nil {
			f.Fatal(err)
		}
	}
}

// rollOutABadAgent halts after the canary, which goes back; a release that works ends it.
func (f *fleet) rollOutABadAgent() func() {
	f.setProfile(`{"spec":{"rollout":{"soak":"1s"}}}`)
	f.await("the profile to be rolled out", func() (string, bool) { return f.profileSays(infrav1.RolledOutCondition, metav1.ConditionTrue) })
	f.upgrade(f.buildAgent("v0.3.0", true))
	f.await("the rollout to halt", func() (string, bool) { return f.profileSays(infrav1.HaltedCondition, metav1.ConditionTrue) })
	return func() {
		f.upgrade(f.buildAgent("v0.3.1", false))
		f.await("the rollout", func() (string, bool) { return f.profileSays(infrav1.RolledOutCondition, metav1.ConditionTrue) })
	}
}

// renameAMacInUse gives a Mac in use another name at the vendor: it may be another cluster's now. By its own name it
// is its Machine's again, without a wipe.
func (f *fleet) renameAMacInUse() func() {
	before := f.server(f.theHost().Spec.ServerID)
	f.world.Vendor().Rename(before.ID, "theirs")
	return func() {
		f.world.Vendor().Rename(before.ID, before.Name)
		f.awaitRunning(3)
		if after := f.server(before.ID); after.Installs != before.Installs {
			f.Errorf("the server was wiped: %+v, was %+v", after, before)
		}
	}
}

// loseAMac deletes the server of a Mac in use, at the vendor.
func (f *fleet) loseAMac() func() {
	id := f.theHost().Spec.ServerID
	lost := f.owners()[id]
	f.world.Vendor().Remove(id)
	f.awaitLoss(lost)
	return func() {
		f.deleteMachine(lost)
		f.awaitRunning(3)
	}
}
