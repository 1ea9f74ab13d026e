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
	"github.com/macfleet/macfleet/internal/host"
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
	if !slices.Contains(h.Finalizers, infrav1.HostFinalizer) || !host.Licensed(h) {
		t.Errorf("finalizers = %q: the host must outlive its wipe", h.Finalizers)
	}
	if w.mac.left != 1 {
		t.Errorf("told to leave %d times", w.mac.left)
	}
	if target := w.mac.dials[len(w.mac.dials)-1]; target.Pin == nil {
		t.Error("the Mac was dialled without a pin")
	}
	if w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Error("the Node is core's to delete")
	}
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "Normal Released") {
		t.Errorf("events = %s", heard)
	}
}

func TestDeletionIsHeld(t *testing.T) {
	for name, hold := range map[string]func(w *world){
		"Cluster paused": func(w *world) {
			c := cluster()
			w.get(client.ObjectKeyFromObject(c), c)
			c.Spec.Paused = ptr.To(true)
			w.update(c)
		},
		"being moved": func(w *world) {
			m := w.machine("mac-1")
			m.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
			w.update(m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			hold(w)
			w.deleteByCore()
			w.settle("mac-1")
			if w.machineGone("mac-1") || w.host(hostName).Spec.Release != nil || w.mac.left != 0 {
				t.Errorf("gone = %t, release = %+v, left = %d: want nothing to happen", w.machineGone("mac-1"), w.host(hostName).Spec.Release, w.mac.left)
			}
		})
	}
}

func TestItsOwnPauseDoesNotHoldADeletion(t *testing.T) {
	w := runningWorld(t)
	m := w.machine("mac-1")
	m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	w.update(m)
	w.deleteByCore()
	w.settle("mac-1")
	if !w.machineGone("mac-1") || w.host(hostName).Spec.Release == nil {
		t.Error("requirement 002: deletion goes on for an annotated object")
	}
}

// Requirement 002's recipe: annotate, clear status.serverID, delete. Another
// owner may live on the Mac, so neither it nor the vendor is touched.
func TestRequirement002_DetachByHand(t *testing.T) {
	w := runningWorld(t)
	dials := len(w.mac.dials)
	m := w.machine("mac-1")
	m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	w.update(m)
	m.Status.ServerID = ""
	w.updateStatus(m)
	w.settle("mac-1")
	if w.machine("mac-1").Status.ServerID != "" {
		t.Fatal("the status of a paused object was rewritten")
	}
	w.deleteByCore()
	w.settle("mac-1")
	h := w.host(hostName)
	if !w.machineGone("mac-1") || h.Spec.Release != nil || h.Spec.ClaimRef != nil || len(w.mac.dials) != dials {
		t.Errorf("gone = %t, spec = %+v, dialled %d times more", w.machineGone("mac-1"), h.Spec, len(w.mac.dials)-dials)
	}
	if !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Error("the Node of this Machine is still there")
	}
}

func TestDetachByHandLeavesAnotherMacsNode(t *testing.T) {
	w := runningWorld(t)
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: "mac-1"}, node)
	w.delete(node)
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, otherID)}})
	m := w.machine("mac-1")
	m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	w.update(m)
	m.Status.ServerID = ""
	w.updateStatus(m)
	w.deleteByCore()
	w.settle("mac-1")
	if w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Error("a Node of another Mac was deleted")
	}
}

func TestNoPrefixNoRelease(t *testing.T) {
	w := runningWorld(t)
	w.r.DefaultPoolPrefix = ""
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
	w.report.At = w.clock.Now().Add(host.GoneAfter)
}

// The claim of a server that is gone stays on its Host: cleared by a Machine that
// then dies, it would let the Host go before the Machine has looked again.
func TestAGoneServerKeepsItsClaim(t *testing.T) {
	w := runningWorld(t)
	w.vanish(0)
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	w.deleteByCore()
	w.fail = func(verb string, object client.Object) error {
		if m, is := object.(*infrav1.ScalewayAppleSiliconMachine); is && verb == "patch" && len(m.Finalizers) == 0 {
			return errPlain
		}
		return nil
	}
	_, _ = w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}})
	if h := w.host(hostName); w.machineGone("mac-1") || !host.HoldsClaim(h, token) || h.Spec.Release != nil {
		t.Errorf("gone = %t, spec = %+v; want the claim to outlive the Machine", w.machineGone("mac-1"), h.Spec)
	}
	w.fail = noFault
	w.settle("mac-1")
	if h := w.host(hostName); !w.machineGone("mac-1") || !host.HoldsClaim(h, token) || h.Spec.Release != nil {
		t.Errorf("gone = %t, spec = %+v; want the Machine gone and the claim there", w.machineGone("mac-1"), h.Spec)
	}
}

// A phase that is older than the lists says nothing: its Mac may be there, and
// would be left unwiped.
func TestAnOldPhaseDoesNotSpareTheRelease(t *testing.T) {
	for name, age := range map[string]func(w *world){
		"no newer list":   func(w *world) { w.report.At = start() },
		"a failed list":   func(w *world) { w.report.Err = errPlain },
		"a strange list":  func(w *world) { w.report.Suspicious = true },
		"never missed":    func(w *world) { h := w.host(hostName); h.Status.MissingSince = nil; w.updateStatus(h) },
		"found meanwhile": func(w *world) { h := w.host(hostName); h.Status.Phase = infrav1.HostInUse; w.updateStatus(h) },
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			w.vanish(0)
			age(w)
			w.deleteByCore()
			w.settle("mac-1")
			if h := w.host(hostName); !w.machineGone("mac-1") || !host.Licensed(h) {
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
	for _, token := range []string{"theirs", ""} {
		_, err := w.r.amendHost(t.Context(), hostName, token, func(h *host.Host) bool { h.Spec.Record.InstallEpoch = 9; return true })
		if !errors.Is(err, errClaimGone) || w.host(hostName).Spec.Record.InstallEpoch == 9 {
			t.Errorf("with token %q: %v, epoch = %d", token, err, w.host(hostName).Spec.Record.InstallEpoch)
		}
	}
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	w.once(func(_ string, o client.Object) bool { _, is := o.(*host.Host); return is }, func() {
		h := w.host(hostName)
		h.Spec.ClaimRef.Token = "theirs"
		w.update(h)
	})
	_, err := w.r.amendHost(t.Context(), hostName, token, func(h *host.Host) bool { h.Spec.Record.InstallEpoch = 9; return true })
	if !errors.Is(err, errClaimGone) || w.host(hostName).Spec.Record.InstallEpoch == 9 {
		t.Errorf("after a lost race: %v, epoch = %d", err, w.host(hostName).Spec.Record.InstallEpoch)
	}
}

// A claim with a release is the host controller's to end: without it the licence
// would stand for nothing, and the disk would never be wiped.
func TestAReleasedClaimIsNotCleared(t *testing.T) {
	w := runningWorld(t)
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	h := w.host(hostName)
	h.Spec.Release = &infrav1.Release{Token: token, Policy: infrav1.Recycle, PoolPrefix: poolName}
	w.update(h)
	for _, with := range []string{token, "theirs"} {
		if err := w.r.endClaim(t.Context(), hostName, with); err != nil || !host.Licensed(w.host(hostName)) {
			t.Errorf("token %q: %v, spec = %+v", with, err, w.host(hostName).Spec)
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
	w.fail = func(verb string, object client.Object) error {
		if m, is := object.(*infrav1.ScalewayAppleSiliconMachine); is && verb == "patch" && len(m.Finalizers) == 0 {
			return errPlain
		}
		return nil
	}
	for range 5 {
		_, _ = w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}})
		w.awaitJobs(client.ObjectKey{Namespace: namespace, Name: "mac-1"})
	}
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

func pod(name string, owner string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "mac-1"}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "x", UID: "x", Controller: ptr.To(true)}}
	}
	return p
}

// Deleted alone, without its Machine: core drains nothing, so it is ours to do.
func TestTheNodeIsEmptiedWhereCoreDoesNot(t *testing.T) {
	w := runningWorld(t)
	w.create(pod("build", "ReplicaSet"))
	w.create(pod("daemon", "DaemonSet"))
	stays := pod("slow", "ReplicaSet")
	stays.Finalizers = []string{"test/hold"}
	w.create(stays)
	w.delete(w.machine("mac-1"))
	w.visit("mac-1")
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: "mac-1"}, node)
	if !node.Spec.Unschedulable || w.reason("mac-1", infrav1.ReleasedCondition) != infrav1.ReasonDraining {
		t.Errorf("unschedulable = %t, Released = %s", node.Spec.Unschedulable, w.reason("mac-1", infrav1.ReleasedCondition))
	}
	if !w.gone(client.ObjectKeyFromObject(pod("build", "")), &corev1.Pod{}) || w.gone(client.ObjectKeyFromObject(pod("daemon", "")), &corev1.Pod{}) {
		t.Error("want the build evicted, and the daemon left")
	}
	if w.host(hostName).Spec.Release != nil {
		t.Error("released with a Pod still running")
	}
	w.get(client.ObjectKeyFromObject(stays), stays)
	stays.Finalizers = nil
	w.update(stays)
	w.settle("mac-1")
	if !w.machineGone("mac-1") || w.host(hostName).Spec.Release == nil || !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Errorf("gone = %t, release = %+v; want all of it, and the Node deleted", w.machineGone("mac-1"), w.host(hostName).Spec.Release)
	}
}

func TestADrainEnds(t *testing.T) {
	for name, c := range map[string]struct {
		timeout *int32
		wait    time.Duration
		ready   bool
	}{
		"default":      {nil, defaultDrainTimeout, true},
		"the Machines": {ptr.To(int32(60)), time.Minute, true},
		"silent Node":  {nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			core := &clusterv1.Machine{}
			w.get(client.ObjectKey{Namespace: namespace, Name: "mac-1"}, core)
			core.Spec.Deletion.NodeDrainTimeoutSeconds = c.timeout
			w.update(core)
			stuck := pod("stuck", "ReplicaSet")
			stuck.Finalizers = []string{"test/hold"}
			w.create(stuck)
			if !c.ready {
				node := &corev1.Node{}
				w.get(client.ObjectKey{Name: "mac-1"}, node)
				node.Status.Conditions[0].Status = corev1.ConditionUnknown
				w.updateStatus(node)
			}
			w.delete(w.machine("mac-1"))
			w.clock.SetTime(w.machine("mac-1").DeletionTimestamp.Time)
			if c.wait > 0 {
				w.clock.SetTime(w.clock.Now().Add(c.wait - time.Second))
				w.visit("mac-1")
				if w.host(hostName).Spec.Release != nil {
					t.Fatal("released before the drain's time was over")
				}
				w.clock.SetTime(w.clock.Now().Add(time.Second))
			}
			w.settle("mac-1")
			if !w.machineGone("mac-1") || w.host(hostName).Spec.Release == nil {
				t.Error("a Pod that does not end holds the Machine for ever")
			}
		})
	}
}

func TestWhoDrains(t *testing.T) {
	now := metav1.Now()
	deleted := func(m *clusterv1.Machine) { m.DeletionTimestamp = &now }
	for name, c := range map[string]struct {
		change func(v *visit)
		core   bool
	}{
		"Machine deleted":            {func(*visit) {}, true},
		"infra machine alone":        {func(v *visit) { v.owner.DeletionTimestamp = nil }, false},
		"no owner":                   {func(v *visit) { v.owner = nil }, false},
		"Node never seen by core":    {func(v *visit) { v.owner.Status.NodeRef = clusterv1.MachineNodeReference{} }, false},
		"Cluster being deleted":      {func(v *visit) { v.cluster.DeletionTimestamp = &now }, false},
		"Cluster gone":               {func(v *visit) { v.cluster = nil }, false},
		"no control plane, no drain": {func(v *visit) { v.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			owner := pair("mac-1")[0].(*clusterv1.Machine)
			owner.Status.NodeRef = clusterv1.MachineNodeReference{Name: "mac-1"}
			deleted(owner)
			v := &visit{owner: owner, cluster: cluster()}
			c.change(v)
			if got := coreDrains(v); got != c.core {
				t.Errorf("core drains = %t, want %t", got, c.core)
			}
		})
	}
}
