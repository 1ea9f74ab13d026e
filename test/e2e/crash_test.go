package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestManagerKilledAtThreePoints kills the manager in the middle of a claim, of a
// bootstrap and of a wipe. Each time another process goes on, and the end is the
// same as without.
func TestManagerKilledAtThreePoints(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 3})
	f.awaitPool(3)

	f.scale(1)
	f.await("the rename that shows the claim", func() (string, bool) {
		renames := f.calls("UpdateServer")
		return fmt.Sprint(len(renames), " renames"), len(renames) > 0
	})
	f.restartManager("during the claim")

	f.await("a bootstrap under way", func() (string, bool) { return f.bootstrapping() })
	f.restartManager("during the bootstrap")
	f.awaitRunning(1)
	if owners := f.owners(); len(owners) != 1 {
		t.Fatalf("claimed hosts: %v, want one", owners)
	}

	// The wipe outlasts the restart: one that was not seen would be asked for again.
	f.endReinstalls(scaleway.EndsNever)
	f.scale(0)
	f.await("the reinstall", func() (string, bool) {
		reinstalls := f.calls("ReinstallServer")
		return fmt.Sprint(len(reinstalls), " reinstalls"), len(reinstalls) > 0
	})
	f.restartManager("during the wipe")
	f.await("the wipe to be seen", func() (string, bool) { return f.phases(), f.inPhase(infrav1.HostWiping) == 1 })
	f.endReinstalls(scaleway.EndsWell)
	f.awaitPool(3)
	f.awaitRunning(0)
	for _, server := range f.world.Vendor().Servers() {
		if server.Installs > 2 {
			t.Errorf("server %s was wiped %d times", server.Name, server.Installs-1)
		}
	}
	if deletions := f.calls("DeleteServer"); len(deletions) != 0 {
		t.Errorf("servers were deleted: %v", deletions)
	}
}

// endReinstalls says how reinstalls end from now on, those that run too.
func (f *fleet) endReinstalls(how string) {
	f.Helper()
	if err := f.world.Vendor().Turn(func(k *scaleway.Knobs) { k.Reinstall = how }); err != nil {
		f.Fatal(err)
	}
}

// bootstrapping tells whether a bootstrap token was minted: the push has begun.
func (f *fleet) bootstrapping() (string, bool) {
	f.Helper()
	var secrets corev1.SecretList
	f.list(&secrets, client.InNamespace("kube-system"))
	for _, secret := range secrets.Items {
		if secret.Type == corev1.SecretTypeBootstrapToken {
			return secret.Name, true
		}
	}
	for _, m := range f.infraMachines() {
		if m.Spec.ProviderID != "" {
			return "joined already", true
		}
	}
	return "no token", false
}

func (f *fleet) restartManager(when string) {
	f.Helper()
	if err := f.world.KillManager(0); err != nil {
		f.Fatalf("killing the manager %s: %v", when, err)
	}
	if err := f.world.StartManager(f.Context(), 0); err != nil {
		f.Fatalf("starting the manager again %s: %v", when, err)
	}
}

// TestLostRecordsCostNothing wipes every status, then deletes every Host: claimed
// Macs keep their owners, and the vendor sees no write.
func TestLostRecordsCostNothing(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 3})
	f.awaitPool(3)
	f.scale(2)
	f.awaitRunning(2)
	owners := f.owners()
	writes := f.vendorWrites()

	for _, host := range f.hosts() {
		f.wipeStatus(&host, func() { host.Status = infrav1.ScalewayAppleSiliconHostStatus{} })
	}
	for _, machine := range f.infraMachines() {
		f.wipeStatus(&machine, func() { machine.Status = infrav1.ScalewayAppleSiliconMachineStatus{} })
	}
	f.awaitInUse(owners)
	f.awaitRunning(2)

	for _, host := range f.hosts() {
		if err := f.client.Delete(f.Context(), &host); err != nil {
			f.Fatalf("deleting host %s: %v", host.Name, err)
		}
	}
	f.awaitInUse(owners)
	f.awaitPool(1)
	f.awaitRunning(2)
	if after := f.vendorWrites(); after != writes {
		t.Errorf("the vendor saw %d writes, want %d: lost records must cost none", after, writes)
	}

	// And the fleet still lets go of them as it should.
	f.scale(0)
	f.awaitPool(3)
}

// wipeStatus writes an empty status, whoever writes beside it.
func (f *fleet) wipeStatus(object client.Object, empty func()) {
	f.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := f.client.Get(f.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		empty()
		return f.client.Status().Update(f.Context(), object)
	})
	if err != nil {
		f.Fatalf("wiping the status of %s: %v", object.GetName(), err)
	}
}

// awaitInUse waits until exactly these servers are in use by their owners.
func (f *fleet) awaitInUse(owners map[string]string) {
	f.Helper()
	f.await("the same owners as before", func() (string, bool) {
		now := f.owners()
		if len(now) != len(owners) || f.inPhase(infrav1.HostInUse) != len(owners) {
			return fmt.Sprint(now, " ", f.phases()), false
		}
		for id, owner := range owners {
			if now[id] != owner {
				return fmt.Sprint(now), false
			}
		}
		return fmt.Sprint(now), true
	})
}

// vendorWrites counts the calls that change a server.
func (f *fleet) vendorWrites() int {
	n := 0
	for _, call := range []string{"UpdateServer", "ReinstallServer", "RebootServer", "DeleteServer", "CreateServer"} {
		n += len(f.calls(call))
	}
	return n
}

// TestTwoManagersOneOwner lets two managers work on the same objects at once, as no
// sandbox of these tests has an election.
// Each host ends with one owner, and nobody's Mac is wiped.
func TestTwoManagersOneOwner(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 3, Managers: 2})
	f.awaitPool(3)
	f.scale(3)
	f.awaitRunning(3)

	owners := map[string]string{}
	for id, owner := range f.owners() {
		if other, twice := owners[owner]; twice {
			t.Errorf("%s owns %s and %s", owner, other, id)
		}
		owners[owner] = id
		if server := f.server(id); server.Name != owner {
			t.Errorf("server %s bears the name %s, its owner is %s", id, server.Name, owner)
		}
	}
	if len(owners) != 3 {
		t.Errorf("owners: %v, want three", owners)
	}
	if reinstalls := f.calls("ReinstallServer"); len(reinstalls) != 0 {
		t.Errorf("claimed Macs were reinstalled: %v", reinstalls)
	}
}
