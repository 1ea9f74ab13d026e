package machine

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/fleetkey"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/requeue"
	"github.com/macfleet/macfleet/internal/rollout"
)

// legacyPair is as the first system leaves a live Machine: its providerID, its
// finalizer, its status, and no hostRef.
func legacyPair(name string) []client.Object {
	objects := pair(name)
	m := objects[1].(*infrav1.ScalewayAppleSiliconMachine)
	m.Finalizers = []string{infrav1.MachineFinalizer}
	m.Spec.ProviderID = host.ProviderID(zone, serverID)
	m.Spec.OS, m.Spec.Type, m.Spec.Zone, m.Spec.FleetName = "Tahoe", "M2-L", zone, "builders"
	m.Status.ServerID, m.Status.Phase = serverID, "Ready"
	m.Status.Conditions = []metav1.Condition{
		{Type: "Provisioned", Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now()},
		{Type: "Bootstrapped", Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now()},
	}
	return objects
}

// legacyKey is a fleet's Secret as the first system writes it.
func legacyKey(t *testing.T) *corev1.Secret {
	t.Helper()
	secret := newSSHSecret(t)
	secret.Data = map[string][]byte{"id_ed25519": secret.Data[fleetkey.KeyPrivate], "id_ed25519.pub": secret.Data[fleetkey.KeyPublic]}
	return secret
}

// usedHost is the host of a server that bears the Machine's name.
func usedHost(id, name string) *infrav1.ScalewayAppleSiliconHost {
	h := poolHost(id)
	h.Status.Phase, h.Status.Server.Name = infrav1.HostForeign, name
	return h
}

// legacyWorld has a live Machine of the first system, its Node, and a free host
// that must never be its.
func legacyWorld(t *testing.T, more ...client.Object) *world {
	t.Helper()
	w := newWorld(t, append(append(legacyPair("mac-1"), legacyKey(t), poolHost(otherID)), more...)...)
	w.join("mac-1")
	w.mac.sudo = true
	return w
}

func (w *world) untouched() {
	w.t.Helper()
	if h := w.host(host.ObjectName(zone, otherID)); h.Spec.ClaimRef != nil {
		w.t.Errorf("the other host was claimed: %+v", h.Spec.ClaimRef)
	}
}

// Its host was let go on purpose: nothing that happens by itself brings it back.
func TestALegacyMachineWithoutAWayBackSaysWhatToDo(t *testing.T) {
	h := usedHost(serverID, "mac-1")
	h.Spec.Record.DetachedAt = &metav1.MicroTime{Time: metav1.Now().Time}
	w := legacyWorld(t, h)
	w.settle("mac-1")
	if c := w.condition(infrav1.HostClaimedCondition); c.Reason != infrav1.ReasonLegacyMachine || !strings.Contains(c.Message, "was let go as it was; no other host is given: delete this Machine") {
		t.Errorf("HostClaimed = %s: %s", c.Reason, c.Message)
	}
	w.untouched()
}

func TestALegacyMachineGetsItsOwnHostAndNoOther(t *testing.T) {
	w := legacyWorld(t)
	w.settle("mac-1")
	c := w.condition(infrav1.HostClaimedCondition)
	if c.Reason != infrav1.ReasonLegacyMachine || !strings.Contains(c.Message, serverID+" is not in the inventory") {
		t.Fatalf("HostClaimed = %s: %s", c.Reason, c.Message)
	}
	if m := w.machine("mac-1"); m.Spec.HostRef != nil || m.Status.ServerID != serverID || m.Status.Phase != machine.PhasePending {
		t.Fatalf("hostRef %+v, serverID %q, phase %s; want none, and the server not forgotten", m.Spec.HostRef, m.Status.ServerID, m.Status.Phase)
	}
	w.untouched()
	before := w.countWrites()
	if w.visit("mac-1"); w.countWrites() != before {
		t.Error("it writes while it waits")
	}

	w.create(usedHost(serverID, "mac-1"))
	w.heard()
	w.settle("mac-1")
	w.stage("mac-1", "secret-1")
	w.settle("mac-1")
	m, h := w.machine("mac-1"), w.host(hostName)
	if ref := m.Spec.HostRef; ref == nil || ref.Name != hostName || !ref.TakeOver || !host.HoldsClaim(h, m) {
		t.Fatalf("hostRef %+v, claim %+v", m.Spec.HostRef, h.Spec.ClaimRef)
	}
	if c := w.condition(infrav1.UpToDateCondition); c.Reason != infrav1.ReasonLegacyMachine {
		t.Errorf("UpToDate = %s: %s", c.Reason, c.Message)
	}
	if m.Status.Phase != machine.PhaseRunning || len(w.mac.dials) != 0 {
		t.Errorf("phase %s, dialled %d times; want it to run on, untouched before its turn", m.Status.Phase, len(w.mac.dials))
	}
	if !slices.ContainsFunc(w.heard(), func(e string) bool { return strings.Contains(e, "LegacyMachine") && strings.Contains(e, hostName) }) {
		t.Error("no event tells of the claim")
	}
	w.takeOverInTurn()
	w.untouched()
}

// takeOverInTurn gives the Machine its turn, and sees the Mac taken over as it is.
func (w *world) takeOverInTurn() {
	w.t.Helper()
	w.turn("mac-1", rollout.Revision(&infrav1.MacNodeProfile{}, document.Agent{SHA256: w.r.Agent.SHA256, Version: w.r.Agent.Version}, nil))
	w.settle("mac-1")
	if len(w.mac.desired) != 1 {
		w.t.Fatalf("%d pushes: %+v", len(w.mac.desired), w.machine("mac-1").Status.Conditions)
	}
	want := w.mac.desired[0]
	if !want.Host.TakeOver || want.Join == nil || want.Host.Name != "mac-1" || want.Host.ProviderID != host.ProviderID(zone, serverID) {
		w.t.Errorf("host %+v, join %t; want a take-over under the same name and providerID, with join material", want.Host, want.Join != nil)
	}
	if len(w.mac.passwords) != 0 {
		w.t.Error("a password was sent to a Mac whose sudo works")
	}
	if m := w.machine("mac-1"); m.Status.Applied.Agent != w.r.Agent.SHA256 || w.reason("mac-1", infrav1.UpToDateCondition) != infrav1.UpToDateCondition {
		w.t.Errorf("applied %+v, conditions %+v", m.Status.Applied, m.Status.Conditions)
	}
	if !slices.ContainsFunc(w.heard(), func(e string) bool { return strings.Contains(e, "is taken over") }) {
		w.t.Error("no event tells of the take-over")
	}
	if h := w.host(hostName); h.Spec.Release != nil || h.Spec.Reboot != nil {
		w.t.Errorf("spec %+v; want neither wipe nor reboot", h.Spec)
	}
	w.joinsWithItsToken()
}

// joinsWithItsToken: the Node is Ready by the agent before ours, which must not end
// the token before ours has used it.
func (w *world) joinsWithItsToken() {
	w.t.Helper()
	if got := w.tokens(); len(got) != 1 {
		w.t.Fatalf("tokens %v; want the one that our agent joins with", got)
	}
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: "mac-1"}, node)
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "LicenseSlotsHealthy", Status: corev1.ConditionTrue})
	w.updateStatus(node)
	w.settle("mac-1")
	if got := w.tokens(); len(got) != 0 {
		w.t.Errorf("tokens %v after our agent keeps the Node", got)
	}
}

// Our agent joins while converge still watches whether it stays: the token that it
// used is not ended under the push, which says at its end what the Mac holds.
func TestATokenOutlivesItsPush(t *testing.T) {
	w := legacyWorld(t, usedHost(serverID, "mac-1"))
	w.settle("mac-1")
	w.stage("mac-1", "secret-1")
	w.settle("mac-1")
	joined := make(chan struct{})
	w.mac.onConverge = func() {
		node := &corev1.Node{}
		w.get(client.ObjectKey{Name: "mac-1"}, node)
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "LicenseSlotsHealthy", Status: corev1.ConditionTrue})
		w.updateStatus(node)
		w.visit("mac-1")
		close(joined)
	}
	w.turn("mac-1", rollout.Revision(&infrav1.MacNodeProfile{}, document.Agent{SHA256: w.r.Agent.SHA256, Version: w.r.Agent.Version}, nil))
	w.settle("mac-1")
	<-joined
	w.mac.onConverge = nil
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Status.Applied.Agent != w.r.Agent.SHA256 || len(w.tokens()) != 0 {
		t.Errorf("applied %+v, tokens %v: %s", m.Status.Applied, w.tokens(), w.condition(infrav1.UpToDateCondition).Message)
	}
}

// The intent was written, and the manager died before the claim.
func TestALegacyClaimSurvivesACrash(t *testing.T) {
	w := legacyWorld(t, usedHost(serverID, "mac-1"))
	w.visit("mac-1") // conditions
	w.fail = func(verb string, o client.Object) error {
		if _, is := o.(*host.Host); is {
			return requeue.ErrStale
		}
		return nil
	}
	w.visit("mac-1")
	w.fail = noFault
	w.restart()
	w.settle("mac-1")
	if m := w.machine("mac-1"); !host.HoldsClaim(w.host(hostName), m) {
		t.Errorf("hostRef %+v is not held", m.Spec.HostRef)
	}
}

func TestALegacyMachineWithoutItsKeySaysSo(t *testing.T) {
	w := newWorld(t, append(legacyPair("mac-1"), usedHost(serverID, "mac-1"))...)
	w.settle("mac-1")
	c := w.condition(infrav1.HostClaimedCondition)
	if c.Reason != infrav1.ReasonFleetKeyUnavailable || !strings.Contains(c.Message, "Secret builders-ssh") || len(w.keys.calls) != 0 {
		t.Errorf("%s: %s, keys %v; want no key made that the Mac does not know", c.Reason, c.Message, w.keys.calls)
	}
}

// Its status alone tells of the server, as of one that was being set up.
func TestALegacyMachineByItsStatus(t *testing.T) {
	objects := legacyPair("mac-1")
	objects[1].(*infrav1.ScalewayAppleSiliconMachine).Spec.ProviderID = ""
	w := newWorld(t, append(objects, legacyKey(t), usedHost(serverID, "mac-1"), poolHost(otherID))...)
	w.mac.sudo = true
	w.r.MaxAttempts, w.r.RebootAfter = 1, 1
	w.r.wire()
	w.settle("mac-1")
	w.stage("mac-1", "secret-1")
	w.mac.set(func(m *fakeMac) {
		m.convErr = &push.Failure{Step: "session", Class: document.Reinstall, Err: requeue.ErrStale}
	})
	for range 3 {
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		w.settle("mac-1")
	}
	if h := w.host(hostName); h.Spec.Release != nil || h.Spec.Reboot != nil || w.machine("mac-1").Spec.HostRef == nil {
		t.Fatalf("spec %+v; want a Mac with guests neither wiped nor rebooted by itself", h.Spec)
	}
	w.mac.set(func(m *fakeMac) { m.convErr = nil })
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.ProviderID != host.ProviderID(zone, serverID) {
		t.Errorf("providerID %q: %+v", m.Spec.ProviderID, m.Status.Conditions)
	}
	w.untouched()
}

func TestADeletedLegacyMachine(t *testing.T) {
	deleted := func(w *world) { w.delete(w.machine("mac-1")); w.settle("mac-1") }
	t.Run("is released to its pool", func(t *testing.T) {
		w := legacyWorld(t, usedHost(serverID, "mac-1"))
		deleted(w)
		h := w.host(hostName)
		if !w.machineGone("mac-1") || !host.WipeAllowed(h) || h.Spec.Release.PoolPrefix != poolName || h.Spec.Release.OSFamily != "tahoe" {
			t.Errorf("gone %t, release %+v", w.machineGone("mac-1"), h.Spec.Release)
		}
		if !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
			t.Error("its Node is still there")
		}
	})
	t.Run("without any prefix is left and counted", func(t *testing.T) {
		w := legacyWorld(t, usedHost(serverID, "mac-1"))
		w.r.DefaultPoolPrefix = ""
		w.r.wire()
		deleted(w)
		h := w.host(hostName)
		if !w.machineGone("mac-1") || h.Spec.Release != nil || h.Spec.ClaimRef == nil {
			t.Fatalf("gone %t, spec %+v", w.machineGone("mac-1"), h.Spec)
		}
		if kind, _ := host.Stray(h, host.OwnersOf(nil), host.Naming{}); kind != host.StrandedStray {
			t.Errorf("counted as %q", kind)
		}
		if !slices.ContainsFunc(w.heard(), func(e string) bool { return strings.Contains(e, infrav1.ReasonReleaseSkipped) }) {
			t.Error("no event ReleaseSkipped")
		}
	})
	// Its intent is all there is: no providerID, and no claim when the host was kept back.
	t.Run("waits for the end of a maintenance", func(t *testing.T) {
		objects, h := legacyPair("mac-1"), usedHost(serverID, "mac-1")
		m := objects[1].(*infrav1.ScalewayAppleSiliconMachine)
		m.Spec.ProviderID = ""
		m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "t-1", TakeOver: true}
		h.Spec.Maintenance = &infrav1.Maintenance{Reason: "fan"}
		w := newWorld(t, append(objects, h, legacyKey(t))...)
		deleted(w)
		if w.machineGone("mac-1") || w.reason("mac-1", infrav1.ReleasedCondition) != infrav1.ReasonReleaseBlocked {
			t.Fatalf("gone %t, spec %+v; want it to wait: nobody would wipe its Mac", w.machineGone("mac-1"), w.host(hostName).Spec)
		}
		h = w.host(hostName)
		h.Spec.Maintenance = nil
		w.update(h)
		w.settle("mac-1")
		if !w.machineGone("mac-1") || !host.WipeAllowed(w.host(hostName)) {
			t.Errorf("gone %t, spec %+v; want it released", w.machineGone("mac-1"), w.host(hostName).Spec)
		}
	})
	t.Run("waits for the inventory", func(t *testing.T) {
		w := legacyWorld(t)
		deleted(w)
		if c := w.condition(infrav1.ReleasedCondition); w.machineGone("mac-1") || c.Reason != infrav1.ReasonReleaseBlocked || !strings.Contains(c.Message, serverID) {
			t.Fatalf("Released = %s: %s", c.Reason, c.Message)
		}
		w.create(usedHost(serverID, "mac-1"))
		w.settle("mac-1")
		if !w.machineGone("mac-1") || !host.WipeAllowed(w.host(hostName)) {
			t.Error("it was found, and is not released")
		}
	})
	t.Run("whose server is gone", func(t *testing.T) {
		w := legacyWorld(t)
		deleted(w)
		w.newerLists()
		if !w.machineGone("mac-1") {
			t.Error("it waits for a server that is proved gone")
		}
		w.untouched()
	})
	// A Node that does not say which Mac it is may be anybody's: so is no providerID.
	t.Run("leaves a Node that only bears its name", func(t *testing.T) {
		objects := legacyPair("mac-1")
		objects[1].(*infrav1.ScalewayAppleSiliconMachine).Spec.ProviderID = ""
		w := newWorld(t, append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}})...)
		deleted(w)
		w.newerLists()
		if !w.machineGone("mac-1") || w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
			t.Errorf("the Machine is gone: %t; want it gone, and the Node there", w.machineGone("mac-1"))
		}
	})
	t.Run("whose server is another's", func(t *testing.T) {
		w := legacyWorld(t, usedHost(serverID, "somebody"))
		deleted(w)
		if c := w.condition(infrav1.ReleasedCondition); w.machineGone("mac-1") || !strings.Contains(c.Message, "newer lists") {
			t.Fatalf("gone %t, Released = %s: %s; want it to wait for lists that are newer", w.machineGone("mac-1"), c.Reason, c.Message)
		}
		w.newerLists()
		if h := w.host(hostName); !w.machineGone("mac-1") || h.Spec.ClaimRef != nil || h.Spec.Release != nil {
			t.Errorf("gone %t, spec %+v", w.machineGone("mac-1"), h.Spec)
		}
	})
	// The manager was here before, saw the server in the pool, and starts again.
	t.Run("whose Host shows an old name", func(t *testing.T) {
		w := legacyWorld(t, usedHost(serverID, poolName+"7"))
		deleted(w)
		if w.machineGone("mac-1") {
			t.Fatal("it went by a name that nobody has read since the manager started")
		}
		h := w.host(hostName)
		h.Status.Server.Name = "mac-1"
		w.updateStatus(h)
		w.settle("mac-1")
		if !w.machineGone("mac-1") || !host.WipeAllowed(w.host(hostName)) {
			t.Errorf("gone %t, spec %+v; want it released", w.machineGone("mac-1"), w.host(hostName).Spec)
		}
	})
	// Requirement 002's recipe, as it was with the first system.
	t.Run("detached by hand", func(t *testing.T) {
		w := legacyWorld(t, usedHost(serverID, "mac-1"))
		m := w.machine("mac-1")
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		w.update(m)
		m.Status.ServerID = ""
		w.updateStatus(m)
		deleted(w)
		if h := w.host(hostName); !w.machineGone("mac-1") || h.Spec.ClaimRef != nil || h.Spec.Release != nil {
			t.Errorf("gone %t, spec %+v", w.machineGone("mac-1"), h.Spec)
		}
	})
}

// newerLists has the zone listed again and again, and the Machine look at it.
func (w *world) newerLists() {
	w.t.Helper()
	for range 3 {
		w.clock.SetTime(w.clock.Now().Add(host.GoneAfter + time.Second))
		w.report.At = w.clock.Now()
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		if !w.machineGone("mac-1") {
			w.visit("mac-1")
		}
	}
}

// Machines of before are neither woken for, nor given, a host of the pool.
func TestAFreeHostWakesNoLegacyMachine(t *testing.T) {
	w := legacyWorld(t)
	_, waiting := w.r.machinesOfHost(t.Context(), nil, poolHost(otherID))
	meant, _ := w.r.machinesOfHost(t.Context(), nil, usedHost(serverID, "mac-1"))
	if len(waiting) != 0 || len(meant) != 1 {
		t.Errorf("woken by a free host: %v, by its own: %v", waiting, meant)
	}
}

func TestTheOSFamilyInAnyCase(t *testing.T) {
	for _, os := range []string{"tahoe", "Tahoe", "macos-tahoe"} {
		objects := pair("mac-1")
		objects[1].(*infrav1.ScalewayAppleSiliconMachine).Spec.OS = os
		w := newWorld(t, append(objects, poolHost(serverID))...)
		if w.settle("mac-1"); w.machine("mac-1").Spec.HostRef == nil {
			t.Errorf("%s: %+v", os, w.machine("mac-1").Status.Conditions)
		}
	}
}

// The first system's Cluster has an infrastructure of a kind of its own, and no zones
// that anybody here could read: its Machines name their zone.
func TestALegacyMachineInTheFirstSystemsCluster(t *testing.T) {
	w := legacyWorld(t, usedHost(serverID, "mac-1"))
	c := cluster()
	w.get(client.ObjectKeyFromObject(c), c)
	c.Spec.InfrastructureRef.Kind, c.Spec.ControlPlaneRef = "TuistCluster", clusterv1.ContractVersionedObjectReference{}
	w.update(c)
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.HostRef == nil || m.Spec.HostRef.Name != hostName {
		t.Errorf("hostRef %+v: %+v", m.Spec.HostRef, m.Status.Conditions)
	}
}
