package machine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
)

// applyCopy creates what "kubectl get -o yaml", an editor and "kubectl apply" make of
// mac-1: without a status, under another key, with the changes.
func (w *world) applyCopy(key client.ObjectKey, changes ...func(*infrav1.ScalewayAppleSiliconMachine)) {
	w.t.Helper()
	source := w.machine("mac-1")
	m := &infrav1.ScalewayAppleSiliconMachine{Spec: *source.Spec.DeepCopy()}
	m.Namespace, m.Name, m.UID = key.Namespace, key.Name, types.UID("copy-"+key.Namespace+"-"+key.Name)
	m.Labels, m.Finalizers = source.Labels, source.Finalizers
	for _, change := range changes {
		change(m)
	}
	w.create(m)
}

func unprovisioned(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.ProviderID = "" }

// passes looks at an object of any namespace until it is at rest.
func (w *world) passes(key client.ObjectKey) {
	w.t.Helper()
	for range 6 {
		if _, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			w.t.Fatalf("reconciling %s: %v", key, err)
		}
	}
}

func (w *world) copied(key client.ObjectKey) *infrav1.ScalewayAppleSiliconMachine {
	w.t.Helper()
	m := &infrav1.ScalewayAppleSiliconMachine{}
	w.get(key, m)
	return m
}

// A copy of a running Machine, with everything that a manifest carries: it claims
// nothing and says why, and neither its life nor its end costs the Mac anything.
func TestACopyOfARunningMachineCostsItsMacNothing(t *testing.T) {
	hostGone := func(w *world) { w.delete(w.host(hostName)) }
	moving := func(m *infrav1.ScalewayAppleSiliconMachine) {
		m.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	}
	byHand := func(m *infrav1.ScalewayAppleSiliconMachine) {
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	}
	for name, row := range map[string]struct {
		key     client.ObjectKey
		changes []func(*infrav1.ScalewayAppleSiliconMachine)
		before  func(w *world)
		silent  bool
	}{
		"another name":                       {key: client.ObjectKey{Namespace: namespace, Name: "mac-9"}, changes: []func(*infrav1.ScalewayAppleSiliconMachine){unprovisioned}},
		"another name, with the providerID":  {key: client.ObjectKey{Namespace: namespace, Name: "mac-9"}},
		"another namespace":                  {key: client.ObjectKey{Namespace: "other", Name: "mac-1"}, changes: []func(*infrav1.ScalewayAppleSiliconMachine){unprovisioned}},
		"another namespace, with providerID": {key: client.ObjectKey{Namespace: "other", Name: "mac-1"}},
		"another namespace, its Host is lost": {
			key: client.ObjectKey{Namespace: "other", Name: "mac-1"}, changes: []func(*infrav1.ScalewayAppleSiliconMachine){unprovisioned}, before: hostGone, silent: true,
		},
		"another namespace, being moved":    {key: client.ObjectKey{Namespace: "other", Name: "mac-1"}, changes: []func(*infrav1.ScalewayAppleSiliconMachine){moving}, silent: true},
		"another namespace, let go by hand": {key: client.ObjectKey{Namespace: "other", Name: "mac-1"}, changes: []func(*infrav1.ScalewayAppleSiliconMachine){byHand}, silent: true},
		"another namespace, an older token": {
			key: client.ObjectKey{Namespace: "other", Name: "mac-1"}, silent: true,
			changes: []func(*infrav1.ScalewayAppleSiliconMachine){func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef.ClaimToken = "older" }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			before, dials := w.host(hostName), len(w.mac.dials)
			if row.before != nil {
				row.before(w)
			}
			w.applyCopy(row.key, row.changes...)
			w.passes(row.key)
			if !row.silent {
				c := conditions.Get(w.copied(row.key), infrav1.HostClaimedCondition)
				if c == nil || c.Reason != infrav1.ReasonClaimConflict || !strings.Contains(c.Message, "claimed for Machine fleet/mac-1") || strings.Contains(c.Message, "\n") {
					t.Errorf("HostClaimed = %+v, want one line that names the owner", c)
				}
				if m := w.copied(row.key); m.Spec.ProviderID != "" && !strings.Contains(c.Message, "pause that first") {
					t.Errorf("HostClaimed = %q: core drains the owner's Node with the copy's Machine, and it does not say so", c.Message)
				}
				if m := w.copied(row.key); m.Status.Initialization.Provisioned != nil {
					t.Error("the copy counts as provisioned: core would take the Node for its own")
				}
			}
			w.delete(w.copied(row.key))
			w.passes(row.key)
			if !row.silent && !w.gone(row.key, &infrav1.ScalewayAppleSiliconMachine{}) {
				t.Error("the copy does not go")
			}
			if row.before == nil {
				after := w.host(hostName)
				if after.Spec.Release != nil || after.Spec.Record.DetachedAt != nil || after.Spec.Record.HandedOverAt != nil || *after.Spec.ClaimRef != *before.Spec.ClaimRef || after.Spec.Reboot != nil {
					t.Errorf("spec = %+v, was %+v", after.Spec, before.Spec)
				}
				w.settle("mac-1")
				if got := w.machine("mac-1").Status.Phase; got != machine.PhaseRunning {
					t.Errorf("the owner is %s: %+v", got, w.machine("mac-1").Status.Conditions)
				}
			}
			if w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
				t.Error("the owner's Node is gone")
			}
			if len(w.mac.dials) != dials {
				t.Error("the Mac was dialled for the copy")
			}
			heard := strings.Join(w.heard(), "\n")
			if !row.silent && (strings.Count(heard, "Warning ClaimConflict") != 1 || !strings.Contains(heard, "Warning ReleaseSkipped")) {
				t.Errorf("events:\n%s", heard)
			}
		})
	}
}

// The copy is made while the owner's Mac is being set up: it must not end the token
// that the Mac is about to join with.
func TestACopyEndsNoToken(t *testing.T) {
	w := claimed(t)
	w.settle("mac-1")
	before := w.tokens()
	if len(before) != 1 || w.bootstrapRecord().TokenID != before[0] {
		t.Fatalf("tokens = %q, record %+v; want one, bound to the host", before, w.bootstrapRecord())
	}
	key := client.ObjectKey{Namespace: namespace, Name: "mac-9"}
	w.applyCopy(key, unprovisioned)
	w.passes(key)
	w.delete(w.copied(key))
	w.passes(key)
	if after := w.tokens(); len(after) != 1 || w.bootstrapRecord().TokenID != before[0] || !w.gone(key, &infrav1.ScalewayAppleSiliconMachine{}) {
		t.Errorf("tokens = %q, was %q", after, before)
	}
}

// A copy without a providerID becomes an ordinary Machine once somebody takes the
// hostRef out of it, and never before.
func TestACopyWithoutItsHostRefChoosesAHost(t *testing.T) {
	w := runningWorld(t)
	w.create(poolHost(otherID))
	for _, object := range pair("mac-9") {
		if _, is := object.(*clusterv1.Machine); is {
			w.create(object)
		}
	}
	owner := pair("mac-9")[1].GetOwnerReferences()
	key := client.ObjectKey{Namespace: namespace, Name: "mac-9"}
	w.applyCopy(key, unprovisioned, func(m *infrav1.ScalewayAppleSiliconMachine) { m.OwnerReferences = owner })
	w.settle("mac-9")
	if m := w.machine("mac-9"); m.Spec.HostRef == nil || m.Spec.HostRef.Name != hostName {
		t.Fatalf("hostRef = %+v; want it as it was written, for a person to see", m.Spec.HostRef)
	}
	m := w.machine("mac-9")
	m.Spec.HostRef = nil
	w.update(m)
	w.settle("mac-9")
	if m := w.machine("mac-9"); m.Spec.HostRef == nil || m.Spec.HostRef.Name == hostName || !host.HoldsClaim(w.host(m.Spec.HostRef.Name), m) {
		t.Errorf("hostRef = %+v, HostClaimed = %s", m.Spec.HostRef, w.reason("mac-9", infrav1.HostClaimedCondition))
	}
}

// A Machine that is named like somebody's server, with a hostRef that somebody wrote,
// gets nothing, and its end touches nothing.
func TestAMachineNamedLikeAServerGetsNothing(t *testing.T) {
	forged := func(w *world) {
		w.create(&corev1.Secret{
			ObjectMeta: pairMeta(host.BootstrapSecretName("cp-1")),
			Data:       map[string][]byte{host.KeyClaimToken: []byte("another"), host.KeyInstallEpoch: []byte("1")},
		})
	}
	for name, before := range map[string]func(w *world){"nothing else": func(*world) {}, "the Secret of another claim": forged} {
		t.Run(name, func(t *testing.T) {
			foreign := poolHost(serverID)
			foreign.Status.Server.Name, foreign.Status.Phase = "cp-1", infrav1.HostForeign
			w := newWorld(t, append(pair("cp-1"), foreign)...)
			before(w)
			w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1"}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, serverID)}})
			m := w.machine("cp-1")
			m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "made-up"}
			w.update(m)
			w.settle("cp-1")
			got := w.message("cp-1", infrav1.HostClaimedCondition)
			if w.reason("cp-1", infrav1.HostClaimedCondition) != infrav1.ReasonClaimConflict || !strings.Contains(got, "nothing shows that this Machine ever had it") {
				t.Errorf("HostClaimed = %s: %s", w.reason("cp-1", infrav1.HostClaimedCondition), got)
			}
			w.delete(w.machine("cp-1"))
			w.settleIfThere("cp-1")
			h := w.host(hostName)
			if !w.machineGone("cp-1") || h.Spec.ClaimRef != nil || h.Spec.Release != nil || h.Spec.Record.Wipe.RequiredSince != nil {
				t.Errorf("gone = %t, spec = %+v", w.machineGone("cp-1"), h.Spec)
			}
			if w.gone(client.ObjectKey{Name: "cp-1"}, &corev1.Node{}) {
				t.Error("the Node of that name is gone")
			}
			if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "Warning ReleaseSkipped") {
				t.Errorf("events:\n%s", heard)
			}
		})
	}
}
