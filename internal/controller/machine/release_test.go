package machine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/machine"
)

// runningWorld has mac-1 running on the one host.
func runningWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	w.heard()
	return w
}

// deleteByCore does what core does to a Machine that is deleted itself: it has
// drained the Node, and deletes the infra machine.
func (w *world) deleteByCore() {
	w.t.Helper()
	core := &clusterv1.Machine{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "mac-1"}, core)
	core.Finalizers = []string{clusterv1.MachineFinalizer}
	core.Status.NodeRef = clusterv1.MachineNodeReference{Name: "mac-1"}
	w.update(core)
	w.delete(core)
	w.delete(w.machine("mac-1"))
}

func TestRelease(t *testing.T) {
	w := runningWorld(t)
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	w.deleteByCore()
	w.settle("mac-1")
	if !w.machineGone("mac-1") {
		t.Fatalf("the Machine is still there: %+v", w.machine("mac-1").Status.Conditions)
	}
	h := w.host(hostName)
	want := infrav1.Release{Token: token, Policy: infrav1.Recycle, PoolPrefix: poolName, RequestedAt: metav1.NewMicroTime(start())}
	if h.Spec.Release == nil || !h.Spec.Release.RequestedAt.Equal(&want.RequestedAt) || h.Spec.Release.Token != token || h.Spec.Release.PoolPrefix != poolName {
		t.Errorf("release = %+v, want %+v", h.Spec.Release, want)
	}
	if !slices.Contains(h.Finalizers, infrav1.HostFinalizer) || !host.WipeAllowed(h) {
		t.Errorf("finalizers = %q: the host must outlive its wipe", h.Finalizers)
	}
	if w.mac.left != 1 {
		t.Errorf("told to leave %d times", w.mac.left)
	}
	if target := w.mac.dials[len(w.mac.dials)-1]; target.Pin == nil {
		t.Error("the Mac was dialled without a pin")
	}
	data, err := w.mac.signers[len(w.mac.signers)-1].Leave()
	w.signedForTheMac(document.VerbLeave, data, err)
	if w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Error("the Node is core's to delete")
	}
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "Normal Released") {
		t.Errorf("events = %s", heard)
	}
}

// Core chooses which Machine goes, by an annotation among others; that alone releases nothing.
func TestContract_OnlyTheDeletedMachinesMacIsReleased(t *testing.T) {
	w := newWorld(t, append(append(pair("mac-1"), pair("mac-2")...), poolHost(serverID))...)
	w.running("mac-1")
	w.create(poolHost(otherID))
	w.settle("mac-2")
	otherName := host.ObjectName(zone, otherID)
	chosen := &clusterv1.Machine{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "mac-1"}, chosen)
	chosen.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: ""}
	w.update(chosen)
	w.settle("mac-1")
	w.settle("mac-2")
	if first, second := w.host(hostName), w.host(otherName); first.Spec.Release != nil || second.Spec.Release != nil {
		t.Fatalf("releases = %+v, %+v before core deletes a Machine", first.Spec.Release, second.Spec.Release)
	}
	w.deleteByCore()
	w.settle("mac-1")
	w.settle("mac-2")
	first, second := w.host(hostName), w.host(otherName)
	if first.Spec.Release == nil || second.Spec.Release != nil || !host.HoldsClaim(second, w.machine("mac-2")) {
		t.Errorf("releases = %+v, %+v; want that of the deleted Machine's Mac, and no other", first.Spec.Release, second.Spec.Release)
	}
}

func TestNoPrefixNoRelease(t *testing.T) {
	w := runningWorld(t)
	w.r.DefaultPoolPrefix = ""
	w.r.wire()
	w.deleteByCore()
	w.settle("mac-1")
	h := w.host(hostName)
	if !w.machineGone("mac-1") || h.Spec.Release != nil || h.Spec.ClaimRef == nil {
		t.Errorf("gone = %t, spec = %+v; want the host left as it is", w.machineGone("mac-1"), h.Spec)
	}
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, infrav1.ReasonReleaseSkipped) {
		t.Errorf("events = %s", heard)
	}
}

func TestNothingToRelease(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"foreign token": func(w *world) {
			h := w.host(hostName)
			h.Spec.ClaimRef.Token = "theirs"
			w.update(h)
		},
		"named by another": func(w *world) {
			h := w.host(hostName)
			h.Status.Conditions[0].Status, h.Status.Conditions[0].Reason = metav1.ConditionFalse, infrav1.ReasonChangedByOther
			w.updateStatus(h)
		},
		"server is gone": func(w *world) { w.vanish(0) },
		"claim taken off": func(w *world) {
			h := w.host(hostName)
			h.Spec.ClaimRef = nil
			w.update(h)
			h.Status.Server.Name = "somebody"
			w.updateStatus(h)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			change(w)
			dials := len(w.mac.dials)
			w.deleteByCore()
			w.settle("mac-1")
			if !w.machineGone("mac-1") || w.host(hostName).Spec.Release != nil || len(w.mac.dials) != dials {
				t.Errorf("gone = %t, release = %+v, dialled %d times more", w.machineGone("mac-1"), w.host(hostName).Spec.Release, len(w.mac.dials)-dials)
			}
		})
	}
}

// vanish makes the one server gone, as lists began to show the given time ago.
func (w *world) vanish(missing time.Duration) {
	w.t.Helper()
	h := w.host(hostName)
	h.Status.Phase = infrav1.HostGone
	h.Status.MissingSince = ptr.To(metav1.NewMicroTime(w.clock.Now().Add(-missing)))
	w.updateStatus(h)
	w.report.At, w.lacks = w.clock.Now().Add(host.GoneAfter), true
}

// The claim of a server that is gone stays on its Host: cleared by a Machine that
// then dies, it would let the Host go before the Machine has looked again.
func TestAGoneServerKeepsItsClaim(t *testing.T) {
	w := runningWorld(t)
	w.vanish(0)
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	w.deleteByCore()
	w.failToRemoveFinalizer(1)
	if h := w.host(hostName); w.machineGone("mac-1") || !bears(h, token) || h.Spec.Release != nil {
		t.Errorf("gone = %t, spec = %+v; want the claim to outlive the Machine", w.machineGone("mac-1"), h.Spec)
	}
	w.fail = noFault
	w.settle("mac-1")
	if h := w.host(hostName); !w.machineGone("mac-1") || !bears(h, token) || h.Spec.Release != nil {
		t.Errorf("gone = %t, spec = %+v; want the Machine gone and the claim there", w.machineGone("mac-1"), h.Spec)
	}
}

// A phase that is older than the lists says nothing: its Mac may be there, and
// would be left unwiped.
func TestAnOldPhaseDoesNotSpareTheRelease(t *testing.T) {
	for name, age := range map[string]func(w *world){
		"a list that has it": func(w *world) { w.lacks = false },
		"a failed list":      func(w *world) { w.report.Err = errPlain },
		"a strange list":     func(w *world) { w.report.Suspicious = true },
		"never missed":       func(w *world) { h := w.host(hostName); h.Status.MissingSince = nil; w.updateStatus(h) },
		"found meanwhile":    func(w *world) { h := w.host(hostName); h.Status.Phase = infrav1.HostInUse; w.updateStatus(h) },
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			w.vanish(0)
			age(w)
			w.deleteByCore()
			w.settle("mac-1")
			if h := w.host(hostName); !w.machineGone("mac-1") || !host.WipeAllowed(h) {
				t.Errorf("gone = %t, release = %+v; want it released", w.machineGone("mac-1"), h.Spec.Release)
			}
		})
	}
}

// The Machine's UID, its deletion, its intent and its move are read again before
// the licence to wipe is given: the copy that is being reconciled may be old.
func TestNoLicenceFromAnOldCopy(t *testing.T) {
	for name, change := range map[string]func(m *infrav1.ScalewayAppleSiliconMachine){
		"not deleted": func(m *infrav1.ScalewayAppleSiliconMachine) { m.DeletionTimestamp = nil },
		"another":     func(m *infrav1.ScalewayAppleSiliconMachine) { m.UID = "another" },
		"being moved": func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
		},
		"no intent":    func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = nil },
		"other intent": func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef.ClaimToken = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			w.deleteByCore()
			w.r.Reader = &alteringReader{Reader: w.client, change: change}
			w.r.wire()
			for range 3 {
				result := w.visit("mac-1")
				if !w.awaitJobs(client.ObjectKey{Namespace: namespace, Name: "mac-1"}) && result.RequeueAfter == 0 {
					t.Error("it does not look again")
				}
			}
			if h := w.host(hostName); h.Spec.Release != nil || w.machineGone("mac-1") {
				t.Errorf("release = %+v, gone = %t; want nothing from an old copy", h.Spec.Release, w.machineGone("mac-1"))
			}
		})
	}
}

// alteringReader shows Machines otherwise than the cache does.
type alteringReader struct {
	client.Reader
	change func(*infrav1.ScalewayAppleSiliconMachine)
}

func (r *alteringReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	if m, is := o.(*infrav1.ScalewayAppleSiliconMachine); is && err == nil {
		r.change(m)
	}
	return err
}

// What is recorded on a host goes onto a host with our claim only.
func TestOnlyTheOwnerRecordsOnAHost(t *testing.T) {
	w := runningWorld(t)
	claim := host.ClaimOf(w.machine("mac-1"))
	for name, change := range map[string]func(*infrav1.ClaimReference){
		"token":     func(c *infrav1.ClaimReference) { c.Token = "theirs" },
		"no token":  func(c *infrav1.ClaimReference) { c.Token = "" },
		"name":      func(c *infrav1.ClaimReference) { c.Name = "mac-2" },
		"namespace": func(c *infrav1.ClaimReference) { c.Namespace = "other" },
		"object":    func(c *infrav1.ClaimReference) { c.UID = "another" },
	} {
		theirs := claim
		change(&theirs)
		_, err := w.r.hosts.Amend(t.Context(), hostclaim.Ref{Host: hostName, Claim: theirs}, func(h *host.Host) bool { h.Spec.Record.InstallEpoch = 9; return true })
		if !errors.Is(err, hostclaim.ErrGone) || w.host(hostName).Spec.Record.InstallEpoch == 9 {
			t.Errorf("with another %s: %v, epoch = %d", name, err, w.host(hostName).Spec.Record.InstallEpoch)
		}
	}
	w.once(func(_ string, o client.Object) bool { _, is := o.(*host.Host); return is }, func() {
		h := w.host(hostName)
		h.Spec.ClaimRef.Token = "theirs"
		w.update(h)
	})
	_, err := w.r.hosts.Amend(t.Context(), hostclaim.Ref{Host: hostName, Claim: claim}, func(h *host.Host) bool { h.Spec.Record.InstallEpoch = 9; return true })
	if !errors.Is(err, hostclaim.ErrGone) || w.host(hostName).Spec.Record.InstallEpoch == 9 {
		t.Errorf("after a lost race: %v, epoch = %d", err, w.host(hostName).Spec.Record.InstallEpoch)
	}
}

// A claim with a release is the host controller's to end: without it the licence
// would stand for nothing, and the disk would never be wiped.
func TestAReleasedClaimIsNotCleared(t *testing.T) {
	w := runningWorld(t)
	ours := host.ClaimOf(w.machine("mac-1"))
	theirs := ours
	theirs.Token = "theirs"
	h := w.host(hostName)
	h.Spec.Release = &infrav1.Release{Token: ours.Token, Policy: infrav1.Recycle, PoolPrefix: poolName}
	w.update(h)
	for _, with := range []infrav1.ClaimReference{ours, theirs} {
		if err := w.r.hosts.End(t.Context(), hostclaim.Ref{Host: hostName, Claim: with}, w.clock.Now()); err != nil || !host.WipeAllowed(w.host(hostName)) {
			t.Errorf("claim %+v: %v, spec = %+v", with, err, w.host(hostName).Spec)
		}
	}
}

// Two managers: one is about to claim for an intent whose Machine the other lets
// go. The claim must not land, or it is held for a Machine that is no more.
func TestALateClaimOfADeadMachineDoesNotLand(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.visit("mac-1")
	w.visit("mac-1")
	second := w.reconciler(w.client)
	key := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}}
	w.once(func(_ string, o client.Object) bool {
		h, is := o.(*host.Host)
		return is && h.Spec.ClaimRef != nil
	}, func() {
		w.delete(w.machine("mac-1"))
		if _, err := second.Reconcile(t.Context(), key); err != nil {
			t.Errorf("the other manager: %v", err)
		}
	})
	_, _ = w.r.Reconcile(t.Context(), key)
	if h := w.host(hostName); !w.machineGone("mac-1") || h.Spec.ClaimRef != nil {
		t.Errorf("gone = %t, claimRef = %+v; want no claim of a Machine that is gone", w.machineGone("mac-1"), h.Spec.ClaimRef)
	}
}

func TestAMissingHostBlocksUntilItIsRebuilt(t *testing.T) {
	w := runningWorld(t)
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	w.delete(w.host(hostName))
	w.deleteByCore()
	w.settle("mac-1")
	if w.machineGone("mac-1") || w.reason("mac-1", infrav1.ReleasedCondition) != infrav1.ReasonReleaseBlocked {
		t.Fatal("the Machine went, and its Mac is forgotten")
	}
	if got := w.reason("mac-1", infrav1.ReadyCondition); got != infrav1.ReasonReleaseBlocked {
		t.Errorf("Ready = %s, want it to say why the deletion waits", got)
	}
	rebuilt := poolHost(serverID)
	rebuilt.Status.Server.Name = "mac-1"
	w.create(rebuilt)
	w.settle("mac-1")
	if h := w.host(hostName); !w.machineGone("mac-1") || h.Spec.Release == nil || h.Spec.Release.Token != token {
		t.Errorf("spec = %+v, want it claimed again and released", h.Spec)
	}
}

func TestAnIntentAloneReleasesNothing(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.visit("mac-1")
	w.visit("mac-1")
	m := w.machine("mac-1")
	m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "never-used"}
	w.update(m)
	w.delete(m)
	w.settle("mac-1")
	if h := w.host(hostName); !w.machineGone("mac-1") || h.Spec.Release != nil || h.Spec.ClaimRef != nil {
		t.Errorf("spec = %+v, want the host untouched", h.Spec)
	}
}

func TestASilentMacDoesNotHoldTheRelease(t *testing.T) {
	w := runningWorld(t)
	w.mac.set(func(m *fakeMac) { m.hold = true })
	w.deleteByCore()
	result := w.visit("mac-1")
	if got := w.reason("mac-1", infrav1.ReleasedCondition); got != infrav1.ReasonLeaving || w.host(hostName).Spec.Release != nil {
		t.Fatalf("Released = %s, release = %+v; want it to wait for the farewell", got, w.host(hostName).Spec.Release)
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > leaveTimeout {
		t.Errorf("comes back after %s", result.RequeueAfter)
	}
	w.clock.SetTime(w.clock.Now().Add(leaveTimeout))
	w.visit("mac-1")
	if !w.machineGone("mac-1") || w.host(hostName).Spec.Release == nil {
		t.Error("the release waits longer than the farewell's time")
	}
}

func TestARunningPushStopsBeforeTheRelease(t *testing.T) {
	w := claimed(t)
	w.mac.set(func(m *fakeMac) { m.hold = true })
	w.visit("mac-1")
	w.deleteByCore()
	w.visit("mac-1")
	if got := w.reason("mac-1", infrav1.ReleasedCondition); got != infrav1.ReasonLeaving || w.host(hostName).Spec.Release != nil {
		t.Fatalf("Released = %s while a push runs", got)
	}
	w.mac.set(func(m *fakeMac) { m.hold = false })
	w.settle("mac-1")
	if !w.machineGone("mac-1") || w.host(hostName).Spec.Release == nil || len(w.tokens()) != 0 {
		t.Errorf("gone = %t, release = %+v, tokens = %q", w.machineGone("mac-1"), w.host(hostName).Spec.Release, w.tokens())
	}
}

// The manager may die between the release and the finalizer: the second pass
// must not record another release, nor say good-bye again.
func TestReleaseIsRecordedOnce(t *testing.T) {
	w := runningWorld(t)
	w.deleteByCore()
	w.failToRemoveFinalizer(5)
	before := w.host(hostName)
	if before.Spec.Release == nil || w.machineGone("mac-1") {
		t.Fatalf("release = %+v, gone = %t", before.Spec.Release, w.machineGone("mac-1"))
	}
	w.fail = func(string, client.Object) error { return nil }
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.restart()
	w.settle("mac-1")
	if after := w.host(hostName); !w.machineGone("mac-1") || after.ResourceVersion != before.ResourceVersion || w.mac.left != 1 {
		t.Errorf("gone = %t, release = %+v, left %d times", w.machineGone("mac-1"), after.Spec.Release, w.mac.left)
	}
}

// Between the look at the host and its release somebody else may have released it, by
// another policy: what was recorded first is being done. A reinstall for the Machine
// itself is no end, and gives way.
func TestAReleaseThatIsRecordedStands(t *testing.T) {
	for before, after := range map[infrav1.ReleasePolicy]infrav1.ReleasePolicy{
		infrav1.Terminate: infrav1.Terminate, infrav1.Recycle: infrav1.Recycle, infrav1.Reinstall: infrav1.Recycle, "": infrav1.Recycle,
	} {
		t.Run(string(before), func(t *testing.T) {
			w := runningWorld(t)
			w.delete(w.machine("mac-1"))
			v := &visit{Snapshot: machine.Snapshot{Machine: w.machine("mac-1"), Host: w.host(hostName)}}
			if before != "" {
				h := w.host(hostName)
				h.Spec.Release = &infrav1.Release{Token: v.Token(), Policy: before, PoolPrefix: "earlier-", RequestedAt: metav1.NewMicroTime(start())}
				w.update(h)
			}
			if err := w.r.releases.recordRelease(t.Context(), v, infrav1.Recycle); err != nil {
				t.Fatal(err)
			}
			got := w.host(hostName).Spec.Release
			if got.Policy != after || (got.PoolPrefix == "earlier-") != (before == after) {
				t.Errorf("release = %+v, want policy %s", got, after)
			}
		})
	}
}
