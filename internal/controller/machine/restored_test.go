package machine

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/requeue"
)

func pairMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// forceGone takes the finalizers off both objects of a Machine and deletes them.
func (w *world) forceGone(name string) {
	w.t.Helper()
	core := &clusterv1.Machine{ObjectMeta: pairMeta(name)}
	for _, object := range []client.Object{core, w.machine(name)} {
		w.get(client.ObjectKeyFromObject(object), object)
		object.SetFinalizers(nil)
		w.update(object)
		w.delete(object)
	}
}

// restore creates the infra machine of a backup again: another UID, no status,
// finalizers as they were. The owner has the UID given; empty: it is not there.
func (w *world) restore(backup *infrav1.ScalewayAppleSiliconMachine, owner types.UID, changes ...func(*infrav1.ScalewayAppleSiliconMachine)) {
	w.t.Helper()
	if owner != "" {
		core := pair(backup.Name)[0].(*clusterv1.Machine)
		core.UID = owner
		w.create(core)
	}
	m := &infrav1.ScalewayAppleSiliconMachine{Spec: *backup.Spec.DeepCopy()}
	m.ObjectMeta = metav1.ObjectMeta{
		Namespace: backup.Namespace, Name: backup.Name, UID: "restored", Labels: backup.Labels, Finalizers: backup.Finalizers, OwnerReferences: backup.OwnerReferences,
	}
	for _, change := range changes {
		change(m)
	}
	w.create(m)
}

func ownedBy(uid types.UID) func(*infrav1.ScalewayAppleSiliconMachine) {
	return func(m *infrav1.ScalewayAppleSiliconMachine) { m.OwnerReferences[0].UID = uid }
}

// The backup of a Machine is restored after its objects were removed by force: it
// has its Mac back as it runs, under the new UID.
func TestARestoredMachineGetsItsMacBack(t *testing.T) {
	for name, row := range map[string]struct {
		changes []func(*infrav1.ScalewayAppleSiliconMachine)
	}{
		"as it was":              {},
		"without its providerID": {[]func(*infrav1.ScalewayAppleSiliconMachine){unprovisioned}},
		"without owners":         {[]func(*infrav1.ScalewayAppleSiliconMachine){func(m *infrav1.ScalewayAppleSiliconMachine) { m.OwnerReferences = nil }}},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			backup, before := w.machine("mac-1"), w.host(hostName)
			if before.Spec.ClaimRef.UID != backup.UID {
				t.Fatalf("claimRef = %+v, want the UID %s", before.Spec.ClaimRef, backup.UID)
			}
			w.forceGone("mac-1")
			w.visit("mac-1")
			w.restore(backup, "core-mac-1", row.changes...)
			w.settle("mac-1")
			h, m := w.host(hostName), w.machine("mac-1")
			if h.Spec.ClaimRef == nil || h.Spec.ClaimRef.UID != "restored" || !host.HoldsClaim(h, m) || h.Spec.Release != nil {
				t.Fatalf("spec = %+v", h.Spec)
			}
			if h.Spec.Record.InstallEpoch != before.Spec.Record.InstallEpoch || m.Spec.ProviderID != backup.Spec.ProviderID {
				t.Errorf("record = %+v, providerID %q", h.Spec.Record, m.Spec.ProviderID)
			}
			if !ptr.Deref(m.Status.Initialization.Provisioned, false) || m.Status.Phase != machine.PhaseRunning || m.Status.ServerID != serverID {
				t.Errorf("status = %+v", m.Status)
			}
			if w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
				t.Error("its Node is gone")
			}
			if heard := strings.Join(w.heard(), "\n"); strings.Count(heard, reasonClaimRestored) != 1 {
				t.Errorf("events:\n%s", heard)
			}
			// It is an owner like any other now.
			w.deleteRestored()
			w.settleIfThere("mac-1")
			if h := w.host(hostName); !w.machineGone("mac-1") || !host.WipeAllowed(h) {
				t.Errorf("gone = %t, release = %+v", w.machineGone("mac-1"), h.Spec.Release)
			}
		})
	}
}

func (w *world) deleteRestored() {
	w.t.Helper()
	w.delete(w.machine("mac-1"))
}

// The API server deletes what was restored without its owner. That is nobody's wish:
// the Mac runs on, is stranded, and the next restore has it.
func TestARestoredMachineWithoutItsOwnerReleasesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		owner     types.UID
		paused    bool
		hostsGone bool
		set       types.UID
	}{
		"its owner's owner has another UID": {owner: "core-mac-1", set: "set-now"},
		"its owner's owner is missing":      {owner: "core-mac-1", set: "none"},
		"no owner":                          {},
		"its owner has another UID":         {owner: "core-again"},
		"no owner, and Hosts were lost":     {hostsGone: true},
		"no owner, the object is paused":    {paused: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			backup := w.machine("mac-1")
			w.forceGone("mac-1")
			if row.hostsGone {
				w.delete(w.host(hostName))
				found := poolHost(serverID)
				found.Status.Server.Name, found.Status.Phase = "mac-1", infrav1.HostForeign
				w.create(found)
			}
			if row.set != "" && row.set != "none" {
				w.create(&clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builders-x", UID: row.set}})
			}
			w.restore(backup, row.owner, func(m *infrav1.ScalewayAppleSiliconMachine) {
				if row.paused {
					m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
				}
			})
			if row.set != "" {
				w.ownedBySet("builders-x", "set-before")
			}
			w.settle("mac-1")
			if got := w.message("mac-1", infrav1.HostClaimedCondition); !row.paused && !strings.Contains(got, "ownerReferences") {
				t.Errorf("HostClaimed = %s: %s", w.reason("mac-1", infrav1.HostClaimedCondition), got)
			}
			w.deleteRestored() // as the garbage collector does
			w.settleIfThere("mac-1")
			h := w.host(hostName)
			if !w.machineGone("mac-1") || h.Spec.Release != nil || h.Spec.Record.DetachedAt != nil || (h.Spec.ClaimRef == nil) != row.hostsGone {
				t.Fatalf("gone = %t, spec = %+v", w.machineGone("mac-1"), h.Spec)
			}
			if w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
				t.Error("its Node is gone")
			}
			owner := row.owner
			if row.set != "" {
				w.ownedBySet("", "")
			}
			if owner == "" {
				owner = "core-later"
				w.restore(backup, owner, ownedBy(owner))
			} else {
				w.restore(backup, "", ownedBy(owner))
			}
			w.settle("mac-1")
			if h, m := w.host(hostName), w.machine("mac-1"); !host.HoldsClaim(h, m) || h.Spec.ClaimRef.UID != "restored" || h.Spec.Release != nil {
				t.Errorf("claimRef = %+v, HostClaimed %s", h.Spec.ClaimRef, w.message("mac-1", infrav1.HostClaimedCondition))
			}
		})
	}
}

// ownedBySet gives mac-1 of core's the MachineSet as its owner, or none.
func (w *world) ownedBySet(name string, uid types.UID) {
	w.t.Helper()
	core := &clusterv1.Machine{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "mac-1"}, core)
	core.OwnerReferences = nil
	if name != "" {
		core.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: name, UID: uid}}
	}
	w.update(core)
}

// The first object was deleted properly: its Mac is being wiped, or was. The restored
// one never gets that disk.
func TestARestoredMachineTakesNoHalfWipedMac(t *testing.T) {
	for name, free := range map[string]bool{"being wiped": false, "wiped": true} {
		for kind, change := range map[string]func(*infrav1.ScalewayAppleSiliconMachine){"": unprovisioned, ", provisioned": func(*infrav1.ScalewayAppleSiliconMachine) {}} {
			t.Run(name+kind, func(t *testing.T) {
				w := runningWorld(t)
				w.create(poolHost(otherID))
				backup := w.machine("mac-1")
				h := w.host(hostName)
				h.Spec.Release = &infrav1.Release{Token: backup.Spec.HostRef.ClaimToken, Policy: infrav1.Recycle, PoolPrefix: poolName}
				h.Spec.Record.Wipe.RequestedAt = ptr.To(metav1.NewMicroTime(w.clock.Now()))
				if free {
					host.RecordWiped(h, w.clock.Now())
					host.Free(h)
				}
				w.update(h)
				if free {
					h.Status.Server.Name, h.Status.Phase = poolName+serverID, infrav1.HostMaintenance
					w.updateStatus(h)
					h.Spec.Maintenance = &infrav1.Maintenance{}
					w.update(h)
				}
				w.forceGone("mac-1")
				w.restore(backup, "core-mac-1", change)
				w.settle("mac-1")
				m, released := w.machine("mac-1"), w.host(hostName)
				if c := released.Spec.ClaimRef; c != nil && c.UID == "restored" {
					t.Errorf("claimRef = %+v", c)
				}
				switch {
				case m.Spec.ProviderID == "" && (m.Spec.HostRef == nil || m.Spec.HostRef.Name == hostName || !host.HoldsClaim(w.host(m.Spec.HostRef.Name), m)):
					t.Errorf("hostRef = %+v, want another host", m.Spec.HostRef)
				case m.Spec.ProviderID != "" && free && (w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonClaimLost || m.Status.Phase != machine.PhaseLost):
					t.Errorf("HostClaimed = %s, phase %s", w.reason("mac-1", infrav1.HostClaimedCondition), m.Status.Phase)
				}
				w.deleteRestored()
				w.settleIfThere("mac-1")
				if again := w.host(hostName); !w.machineGone("mac-1") || again.Spec.Record.InstallEpoch != released.Spec.Record.InstallEpoch || (again.Spec.Release == nil) != free {
					t.Errorf("gone = %t, spec = %+v", w.machineGone("mac-1"), again.Spec)
				}
			})
		}
	}
}

// An old copy of the Machine takes back nothing: its object may be gone as well.
func TestAnOldCopyTakesNothingBack(t *testing.T) {
	w := runningWorld(t)
	v, before := &visit{Snapshot: machine.Snapshot{Machine: w.machine("mac-1")}}, w.host(hostName).Spec.ClaimRef.UID
	v.Machine.UID = "before"
	if err := w.r.claims.recordUID(t.Context(), v, w.host(hostName)); !errors.Is(err, requeue.ErrStale) {
		t.Errorf("%v, want it stale", err)
	}
	if got := w.host(hostName).Spec.ClaimRef.UID; got != before {
		t.Errorf("the claim is of %s", got)
	}
}

// A Mac that is reinstalled for the Machine before it is not touched meanwhile.
func TestARestoredMachineWaitsForItsReinstall(t *testing.T) {
	w := runningWorld(t)
	backup, h := w.machine("mac-1"), w.host(hostName)
	h.Spec.Release = &infrav1.Release{Token: backup.Spec.HostRef.ClaimToken, Policy: infrav1.Reinstall}
	w.update(h)
	w.forceGone("mac-1")
	w.visit("mac-1")
	w.restore(backup, "core-mac-1", unprovisioned)
	dials := len(w.mac.dials)
	w.settle("mac-1")
	if m := w.machine("mac-1"); !host.HoldsClaim(w.host(hostName), m) || len(w.mac.dials) != dials || m.Spec.ProviderID != "" {
		t.Errorf("claimRef = %+v, providerID %q, dialled %d times", w.host(hostName).Spec.ClaimRef, m.Spec.ProviderID, len(w.mac.dials)-dials)
	}
}

// What the first hole made of its victim: its Mac was wiped and freed, and it stayed
// Joining for ever. Now it says what became of its Mac, its Node goes, so that any
// MachineHealthCheck finds it, and its own end touches nothing.
func TestAMachineWhoseMacWasFreedSaysSo(t *testing.T) {
	for name, row := range map[string]struct {
		change   func(h *host.Host)
		server   string
		says     string
		nodeGoes bool
	}{
		"freed": {func(h *host.Host) { h.Spec.ClaimRef = nil }, poolName + serverID, "it was freed", true},
		"claimed for another": {func(h *host.Host) {
			h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: namespace, Name: "mac-2", Token: "theirs"}
		}, "mac-2", "claimed for Machine fleet/mac-2", true},
		"of a namesake": {func(h *host.Host) {
			h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "other", Name: "mac-1", Token: "theirs"}
		}, "mac-1", "claimed for Machine other/mac-1", false},
		"somebody's": {func(h *host.Host) { h.Spec.ClaimRef = nil }, "their-build", `"their-build"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			h := w.host(hostName)
			row.change(h)
			w.update(h)
			h.Status.Server.Name = row.server
			w.updateStatus(h)
			w.settle("mac-1")
			m := w.machine("mac-1")
			if got := w.message("mac-1", infrav1.HostClaimedCondition); w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonClaimLost || !strings.Contains(got, row.says) {
				t.Errorf("HostClaimed = %s: %s", w.reason("mac-1", infrav1.HostClaimedCondition), got)
			}
			if w.reason("mac-1", infrav1.ReadyCondition) != infrav1.ReasonClaimLost || m.Status.Phase != machine.PhaseLost {
				t.Errorf("Ready = %s, phase %s", w.reason("mac-1", infrav1.ReadyCondition), m.Status.Phase)
			}
			if goes := w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}); goes != row.nodeGoes {
				t.Errorf("its Node goes: %t", goes)
			}
			spec := w.host(hostName).Spec
			w.delete(m)
			w.settleIfThere("mac-1")
			if after := w.host(hostName).Spec; !w.machineGone("mac-1") || after.Release != nil || (after.ClaimRef == nil) != (spec.ClaimRef == nil) {
				t.Errorf("gone = %t, spec = %+v", w.machineGone("mac-1"), after)
			}
		})
	}
}

// The Host of a Machine that ran was deleted while the vendor had lost the server.
func TestAMachineWhoseHostAndServerAreGoneSaysSo(t *testing.T) {
	w := runningWorld(t)
	w.delete(w.host(hostName))
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.HostClaimedCondition); got != infrav1.ReasonClaiming {
		t.Errorf("HostClaimed = %s, want it awaited first", got)
	}
	for range 2 {
		w.clock.SetTime(w.clock.Now().Add(2 * host.GoneAfter))
		w.report.At = w.clock.Now()
		w.settle("mac-1")
	}
	if got := w.reason("mac-1", infrav1.HostClaimedCondition); got != infrav1.ReasonServerGone || w.machine("mac-1").Status.Phase != machine.PhaseLost {
		t.Errorf("HostClaimed = %s, phase %s", got, w.machine("mac-1").Status.Phase)
	}
}

// A Host that was found again is not claimed while a person keeps it; a deletion
// waits for that, and says so.
func TestAKeptHostIsNotClaimedAgain(t *testing.T) {
	for name, row := range map[string]struct {
		keep, end func(h *host.Host)
		reason    string
	}{
		"maintenance": {func(h *host.Host) { h.Spec.Maintenance = &infrav1.Maintenance{Reason: "new disk"} }, func(h *host.Host) { h.Spec.Maintenance = nil }, infrav1.ReasonMaintenance},
		"quarantine":  {func(h *host.Host) { h.Spec.Quarantine = &infrav1.Quarantine{Reason: "fans"} }, func(h *host.Host) { h.Spec.Quarantine = nil }, infrav1.ReasonQuarantined},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			w.delete(w.host(hostName))
			found := poolHost(serverID)
			found.Status.Server.Name, found.Status.Phase = "mac-1", infrav1.HostDiscovered
			row.keep(found)
			w.create(found)
			w.settle("mac-1")
			if got := w.reason("mac-1", infrav1.HostClaimedCondition); got != row.reason || w.host(hostName).Spec.ClaimRef != nil {
				t.Errorf("HostClaimed = %s, claimRef = %+v", got, w.host(hostName).Spec.ClaimRef)
			}
			w.delete(w.machine("mac-1"))
			w.settle("mac-1")
			if got := w.message("mac-1", infrav1.ReleasedCondition); w.machineGone("mac-1") || w.reason("mac-1", infrav1.ReleasedCondition) != infrav1.ReasonReleaseBlocked || !strings.Contains(got, "spec."+name) {
				t.Errorf("Released = %s", got)
			}
			h := w.host(hostName)
			row.end(h)
			w.update(h)
			w.settleIfThere("mac-1")
			if !w.machineGone("mac-1") || !host.WipeAllowed(w.host(hostName)) {
				t.Errorf("gone = %t, release = %+v", w.machineGone("mac-1"), w.host(hostName).Spec.Release)
			}
		})
	}
}

// Two Machines of one name, in two namespaces, mean a host that was found again. The
// one that is proved has it, whoever comes first.
func TestTheBetterRightHasTheHostThatWasFoundAgain(t *testing.T) {
	w := runningWorld(t)
	copied := client.ObjectKey{Namespace: "other", Name: "mac-1"}
	w.delete(w.host(hostName))
	w.applyCopy(copied, func(m *infrav1.ScalewayAppleSiliconMachine) { // younger, and provisioned by its manifest
		m.CreationTimestamp = metav1.NewTime(start())
	})
	found := poolHost(serverID)
	found.Status.Server.Name, found.Status.Phase = "mac-1", infrav1.HostDiscovered
	w.create(found)
	w.passes(copied)
	if h := w.host(hostName); h.Spec.ClaimRef != nil {
		t.Fatalf("claimRef = %+v: the copy has it", h.Spec.ClaimRef)
	}
	w.delete(w.copied(copied))
	w.passes(copied)
	w.settle("mac-1")
	if h := w.host(hostName); !host.HoldsClaim(h, w.machine("mac-1")) || h.Spec.Release != nil || w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Errorf("spec = %+v", h.Spec)
	}
}
