package e2e

import (
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/mac"
)

// root runs a script on the one Mac in use, as somebody who sits at it: over SSH
// the fleet's key may only run the agent's verbs as root.
func (f *fleet) root(script string) string {
	f.Helper()
	return f.rootAt(f.macInUse(), script)
}

// rootOf does so on the Mac of a server.
func (f *fleet) rootOf(serverID, script string) string {
	f.Helper()
	return f.rootAt(f.macOf(serverID), script)
}

func (f *fleet) rootAt(machine *mac.Mac, script string) string {
	f.Helper()
	output, err := machine.AsRoot(f.Context(), script)
	if err != nil {
		f.Fatalf("%s: %v", script, err)
	}
	return output
}

func (f *fleet) macOf(serverID string) *mac.Mac {
	f.Helper()
	machine, found := f.world.Mac(serverID)
	if !found {
		f.Fatalf("server %s has no Mac", serverID)
	}
	return machine
}

// macInUse is the one Mac in use.
func (f *fleet) macInUse() *mac.Mac {
	f.Helper()
	for _, host := range f.hosts() {
		if host.Status.Phase == infrav1.HostInUse {
			return f.macOf(host.Spec.ServerID)
		}
	}
	f.Fatal("no Mac is in use")
	return nil
}
