package machine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
)

// annotate sets one annotation of mac-1.
func (w *world) annotate(key, value string) {
	w.t.Helper()
	m := w.machine("mac-1")
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, value)
	w.update(m)
}

// Requirement 000's opt-out, word for word: annotate the infra machine, delete the
// Machine. It needs no pool.
func TestRequirement000_TerminateByAnnotation(t *testing.T) {
	for name, prefix := range map[string]string{"with a pool": poolName, "without": ""} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			w.r.DefaultPoolPrefix = prefix
			w.r.wire()
			w.annotate("tuist.dev/release-policy", "terminate")
			w.deleteByCore()
			w.settle("mac-1")
			h := w.host(hostName)
			if !w.machineGone("mac-1") || !host.WipeAllowed(h) || h.Spec.Release.Policy != infrav1.Terminate || w.mac.left != 1 {
				t.Errorf("gone = %t, release = %+v, left %d times", w.machineGone("mac-1"), h.Spec.Release, w.mac.left)
			}
		})
	}
}

func TestRequirement000_PoolAdoptedMachinesGoBackToThePool(t *testing.T) {
	for name, c := range map[string]struct {
		ordered bool
		spec    infrav1.ReleasePolicy
		want    infrav1.ReleasePolicy
	}{
		"adopted":                      {false, "", infrav1.Recycle},
		"ordered":                      {true, "", infrav1.Terminate},
		"ordered, kept for the pool":   {true, infrav1.Recycle, infrav1.Recycle},
		"adopted, not to be used more": {false, infrav1.Terminate, infrav1.Terminate},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			h := w.host(hostName)
			h.Spec.Record.Ordered = c.ordered
			w.update(h)
			m := w.machine("mac-1")
			m.Spec.ReleasePolicy = c.spec
			w.update(m)
			w.deleteByCore()
			w.settle("mac-1")
			if h := w.host(hostName); !w.machineGone("mac-1") || !host.WipeAllowed(h) || h.Spec.Release.Policy != c.want {
				t.Errorf("gone = %t, release = %+v, want %s", w.machineGone("mac-1"), h.Spec.Release, c.want)
			}
		})
	}
}

// A word that is no policy is told as soon as it is written, and changes nothing.
func TestAnUnknownPolicyIsToldAndIgnored(t *testing.T) {
	w := runningWorld(t)
	w.annotate(infrav1.ReleasePolicyAnnotation, "destroy")
	w.settle("mac-1")
	if got := w.message("mac-1", infrav1.ReleasedCondition); !strings.Contains(got, `"destroy"`) || !strings.Contains(got, "known: terminate, recycle, detach") {
		t.Errorf("Released = %s %q", w.reason("mac-1", infrav1.ReleasedCondition), got)
	}
	if m := w.machine("mac-1"); m.Status.Phase != machine.PhaseRunning {
		t.Errorf("phase = %s, want the Machine to go on", m.Status.Phase)
	}
	w.annotate(infrav1.ReleasePolicyAnnotation, "recycle")
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.ReleasedCondition); got != "" {
		t.Errorf("Released = %s, want nothing once it is mended", got)
	}
	w.annotate(infrav1.ReleasePolicyAnnotation, "destroy")
	w.deleteByCore()
	w.settle("mac-1")
	if h := w.host(hostName); !w.machineGone("mac-1") || !host.WipeAllowed(h) || h.Spec.Release.Policy != infrav1.Recycle {
		t.Errorf("release = %+v, want the default", h.Spec.Release)
	}
	if heard := strings.Join(w.heard(), "\n"); strings.Count(heard, "Warning "+machine.ReasonNoPolicy) != 2 {
		t.Errorf("events = %s, want it told each time it was written", heard)
	}
}

// Detach: the Mac is told to leave, its Node goes, the vendor is asked for nothing.
func TestDetach(t *testing.T) {
	w := runningWorld(t)
	m := w.machine("mac-1")
	m.Spec.ReleasePolicy = infrav1.Detach
	w.update(m)
	w.deleteByCore()
	w.settle("mac-1")
	h := w.host(hostName)
	if !w.machineGone("mac-1") || h.Spec.ClaimRef != nil || h.Spec.Release != nil || h.Spec.Record.DetachedAt == nil || host.Clean(h) {
		t.Errorf("gone = %t, spec = %+v; want the claim cleared, and the disk not clean", w.machineGone("mac-1"), h.Spec)
	}
	if w.mac.left != 1 || !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Errorf("left %d times; want the Mac to leave and its Node to go", w.mac.left)
	}
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "Normal "+infrav1.ReasonDetached) {
		t.Errorf("events = %s", heard)
	}
}

// A crash after the claim was cleared: the server still bears the Machine's name,
// but it must not be claimed again.
func TestADetachedHostIsNotClaimedAgain(t *testing.T) {
	w := runningWorld(t)
	m := w.machine("mac-1")
	m.Spec.ReleasePolicy = infrav1.Detach
	w.update(m)
	w.deleteByCore()
	w.failToRemoveFinalizer(4)
	if h := w.host(hostName); w.machineGone("mac-1") || h.Spec.ClaimRef != nil || h.Spec.Record.DetachedAt == nil {
		t.Fatalf("spec = %+v, want it detached before the Machine goes", h.Spec)
	}
	w.fail = noFault
	w.restart()
	w.settle("mac-1")
	if h := w.host(hostName); !w.machineGone("mac-1") || h.Spec.ClaimRef != nil || h.Spec.Record.DetachedAt == nil || w.mac.left != 1 {
		t.Errorf("gone = %t, spec = %+v, left %d times", w.machineGone("mac-1"), h.Spec, w.mac.left)
	}
}

// A Machine that goes while its server is reinstalled for it must not leave a claim
// behind that nobody holds: the release becomes one that ends it.
func TestAMachineGoesWhileItsServerIsReinstalled(t *testing.T) {
	for name, c := range map[string]struct {
		spec  infrav1.ReleasePolicy
		ended func(h *host.Host) bool
	}{
		"terminate": {"", func(h *host.Host) bool { return host.WipeAllowed(h) && h.Spec.Release.Policy == infrav1.Terminate }},
		"recycle":   {infrav1.Recycle, func(h *host.Host) bool { return host.WipeAllowed(h) && h.Spec.Release.Policy == infrav1.Recycle }},
		"detach": {infrav1.Detach, func(h *host.Host) bool {
			return h.Spec.ClaimRef == nil && h.Spec.Release == nil && h.Spec.Record.DetachedAt != nil && !host.Clean(h)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := claimed(t)
			h := w.host(hostName)
			h.Spec.Record.Ordered = true
			host.ReleaseUnhealthy(h, infrav1.Release{Token: h.Spec.ClaimRef.Token, Policy: infrav1.Reinstall}, "x", w.clock.Now())
			w.update(h)
			m := w.machine("mac-1")
			m.Spec.ReleasePolicy = c.spec
			w.update(m)
			w.deleteByCore()
			w.settle("mac-1")
			if h := w.host(hostName); !w.machineGone("mac-1") || !c.ended(h) {
				t.Errorf("gone = %t, spec = %+v", w.machineGone("mac-1"), h.Spec)
			}
		})
	}
}

// A host that was provisioned for the Machine and carries its claim no more: the
// Node goes all the same, or it would stay for good without a Machine.
func TestMachineWithoutClaimDeletesItsNode(t *testing.T) {
	for name, c := range map[string]struct {
		claim *infrav1.ClaimReference
		goes  bool
	}{
		"nobody's":     {nil, true},
		"another's":    {&infrav1.ClaimReference{Namespace: namespace, Name: "mac-2", Token: "theirs"}, true},
		"a namesake's": {&infrav1.ClaimReference{Namespace: "other", Name: "mac-1", Token: "theirs"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			h := w.host(hostName)
			h.Spec.ClaimRef = c.claim
			w.update(h)
			h.Status.Server.Name = "somebody-else"
			w.updateStatus(h)
			w.delete(w.machine("mac-1"))
			w.settle("mac-1")
			if goes := w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}); !w.machineGone("mac-1") || goes != c.goes || w.host(hostName).Spec.Release != nil {
				t.Errorf("gone = %t, the Node goes: %t, want %t", w.machineGone("mac-1"), goes, c.goes)
			}
		})
	}
}

// The Mac joined before the Machine was provisioned; then its Host was lost and
// found again, free or with a name that is nobody's of ours.
func TestUnprovisionedMachineDeletesItsNode(t *testing.T) {
	for name, serverName := range map[string]string{"free again": poolName + serverID, "somebody's": "somebody-else"} {
		t.Run(name, func(t *testing.T) {
			w := claimed(t)
			w.join("mac-1")
			w.delete(w.host(hostName))
			found := poolHost(serverID)
			found.Status.Server.Name = serverName
			w.create(found)
			w.delete(w.machine("mac-1"))
			w.settle("mac-1")
			if h := w.host(hostName); !w.machineGone("mac-1") || !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) || h.Spec.ClaimRef != nil || h.Spec.Release != nil {
				t.Errorf("gone = %t, spec = %+v; want Machine and Node gone, and the host untouched", w.machineGone("mac-1"), h.Spec)
			}
		})
	}
}

// The recipe's first step keeps a Machine from taking a host at all.
func TestRequirement002_PausedAnnotationSkipsAdoption(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.annotate(clusterv1.PausedAnnotation, "")
	w.settle("mac-1")
	if m, h := w.machine("mac-1"), w.host(hostName); m.Spec.HostRef != nil || h.Spec.ClaimRef != nil || len(w.keys.calls) != 0 {
		t.Errorf("hostRef = %+v, claimRef = %+v; want neither", m.Spec.HostRef, h.Spec.ClaimRef)
	}
	w.delete(w.machine("mac-1"))
	w.settleIfThere("mac-1")
	if !w.machineGone("mac-1") || w.host(hostName).Spec.ClaimRef != nil {
		t.Error("a paused Machine without a host does not go")
	}
}

// clusterctl takes the Machine away: the host goes with it, and nothing that this
// cluster still does may touch it, also where the mark is lost again.
func TestRequirement002_AMovedMachineHandsItsHostOver(t *testing.T) {
	w := runningWorld(t)
	w.annotate(clusterctlv1.DeleteForMoveAnnotation, "")
	dials, before := len(w.mac.dials), w.machine("mac-1").ResourceVersion
	w.settle("mac-1")
	if h := w.host(hostName); h.Spec.Record.HandedOverAt == nil || h.Spec.ClaimRef == nil || h.Spec.Release != nil || w.machine("mac-1").ResourceVersion != before {
		t.Fatalf("spec = %+v; want the host handed over, and the Machine not written", h.Spec)
	}
	if heard := w.heard(); len(heard) != 1 || !strings.Contains(heard[0], infrav1.ReasonHandedOver) {
		t.Errorf("events = %q, want one", heard)
	}
	w.deleteByCore()
	w.settle("mac-1")
	m := w.machine("mac-1")
	delete(m.Annotations, clusterctlv1.DeleteForMoveAnnotation)
	w.update(m)
	w.settle("mac-1")
	if h := w.host(hostName); !w.machineGone("mac-1") || h.Spec.Release != nil || h.Spec.ClaimRef == nil || h.Spec.Record.HandedOverAt == nil || len(w.mac.dials) != dials {
		t.Errorf("gone = %t, spec = %+v; want the host untouched", w.machineGone("mac-1"), h.Spec)
	}
	if w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Error("the Node of a Mac that was handed over was deleted")
	}
}

func TestAMoveThatWasTakenBack(t *testing.T) {
	w := runningWorld(t)
	w.annotate(clusterctlv1.DeleteForMoveAnnotation, "")
	w.settle("mac-1")
	m := w.machine("mac-1")
	m.Annotations = nil
	w.update(m)
	w.settle("mac-1")
	if h := w.host(hostName); h.Spec.Record.HandedOverAt != nil || w.machine("mac-1").Status.Phase != machine.PhaseRunning {
		t.Errorf("record = %+v, phase = %s; want the host used again", h.Spec.Record, w.machine("mac-1").Status.Phase)
	}
}

// A Machine whose Cluster is gone still ends, and its host is wiped.
func TestALostClusterDoesNotHoldADeletion(t *testing.T) {
	w := runningWorld(t)
	w.delete(cluster())
	w.delete(w.machine("mac-1"))
	w.settle("mac-1")
	if !w.machineGone("mac-1") || !host.WipeAllowed(w.host(hostName)) || !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Errorf("gone = %t, release = %+v", w.machineGone("mac-1"), w.host(hostName).Spec.Release)
	}
}

// The server was deleted in the console, under a Machine that lives.
func TestAServerThatIsGoneUnderALivingMachine(t *testing.T) {
	t.Run("provisioned", func(t *testing.T) {
		w := runningWorld(t)
		w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "build"}, Spec: corev1.PodSpec{NodeName: "mac-1"}})
		w.vanish(0)
		w.settle("mac-1")
		if !w.gone(client.ObjectKey{Namespace: "default", Name: "build"}, &corev1.Pod{}) {
			t.Error("the Pod outlived its Mac")
		}
		m := w.machine("mac-1")
		if m.Spec.HostRef == nil || w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonServerGone || w.reason("mac-1", infrav1.ReadyCondition) != infrav1.ReasonServerGone {
			t.Errorf("hostRef = %+v, conditions = %+v", m.Spec.HostRef, m.Status.Conditions)
		}
		if !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) || w.host(hostName).Spec.ClaimRef == nil {
			t.Error("want the Node deleted, and the claim kept for the host controller")
		}
		before := w.countWrites()
		if w.settle("mac-1"); w.countWrites() != before {
			t.Error("it writes though nothing changes")
		}
	})
	t.Run("not provisioned", func(t *testing.T) {
		w := claimed(t)
		w.create(poolHost(otherID))
		w.vanish(0)
		w.settle("mac-1")
		if ref := w.machine("mac-1").Spec.HostRef; ref == nil || ref.Name == hostName {
			t.Errorf("hostRef = %+v, want another host", ref)
		}
	})
	t.Run("not proved", func(t *testing.T) {
		w := runningWorld(t)
		w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "build"}, Spec: corev1.PodSpec{NodeName: "mac-1"}})
		w.vanish(0)
		w.report.Suspicious = true
		w.settle("mac-1")
		if w.gone(client.ObjectKey{Namespace: "default", Name: "build"}, &corev1.Pod{}) {
			t.Error("the Pod of a Mac that may live was removed")
		}
		if w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) || w.reason("mac-1", infrav1.HostClaimedCondition) != machine.ReasonClaimed {
			t.Errorf("HostClaimed = %s, and the Node may be gone: want nothing from a list that is not believed", w.reason("mac-1", infrav1.HostClaimedCondition))
		}
	})
}

func TestRequirement002_DeletionWaitsForAPauseOrAMove(t *testing.T) {
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
			if w.machineGone("mac-1") || w.host(hostName).Spec.Release != nil || w.mac.left != 0 || w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
				t.Errorf("gone = %t, release = %+v, left = %d: want nothing to happen", w.machineGone("mac-1"), w.host(hostName).Spec.Release, w.mac.left)
			}
		})
	}
}

func TestRequirement002_ItsOwnPauseDoesNotHoldADeletion(t *testing.T) {
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
	if !w.machineGone("mac-1") || h.Spec.Release != nil || h.Spec.ClaimRef != nil || h.Spec.Record.DetachedAt == nil || len(w.mac.dials) != dials {
		t.Errorf("gone = %t, spec = %+v, dialled %d times more", w.machineGone("mac-1"), h.Spec, len(w.mac.dials)-dials)
	}
	if !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Error("the Node of this Machine is still there")
	}
}

func TestRequirement002_DetachByHandLeavesAnotherMacsNode(t *testing.T) {
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
