package e2e

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// trouble is what an alert speaks of, in a sandbox with four Macs and three Machines.
type trouble struct {
	alert string
	// begin makes it, and returns what mends it.
	begin func(*fleet) (mend func())
}

// step is the real time of a step of the watch, each of which is 15 seconds to it: ten minutes pass in four seconds.
const step = 100 * time.Millisecond

// troubles are in the order in which the sandbox stands them.
var troubles = []trouble{
	{"MacBillsForNobody", (*fleet).nameAFreeMac},
	{"MacQuarantined", (*fleet).quarantineAMac},
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
