package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// Somebody with a namespace of their own names a Machine like another's Node and
// writes its providerID: the Node is not theirs, whatever their hostRef says.
func TestAForgedProviderIDDeletesNobodysNode(t *testing.T) {
	paused := map[string]string{"cluster.x-k8s.io/paused": ""}
	for name, forge := range map[string]func(m *infrav1.ScalewayAppleSiliconMachine){
		"without a hostRef": func(*infrav1.ScalewayAppleSiliconMachine) {},
		"detached by hand":  func(m *infrav1.ScalewayAppleSiliconMachine) { m.Annotations = paused },
		"with a hostRef to a free host": func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Spec.HostRef = &infrav1.HostReference{Name: host.ObjectName(zone, otherID), ClaimToken: "x"}
		},
		"detached, with a hostRef to no host": func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Annotations = paused
			m.Spec.HostRef = &infrav1.HostReference{Name: host.ObjectName(zone, "33333333-3333-4333-8333-333333333333"), ClaimToken: "x"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			w.create(poolHost(otherID))
			m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "attacker", Name: "mac-1", Finalizers: []string{infrav1.MachineFinalizer}}}
			m.Spec.ProviderID = host.ProviderID(zone, serverID)
			forge(m)
			w.create(m)
			w.delete(m)
			for range 3 {
				if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(m)}); err != nil {
					t.Log(err)
				}
			}
			if w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
				t.Error("another's Node was deleted")
			}
			if h := w.host(hostName); h.Spec.Release != nil || h.Spec.ClaimRef == nil || h.Spec.ClaimRef.Namespace != namespace {
				t.Errorf("another's host: %+v", h.Spec)
			}
		})
	}
	t.Run("with a host of its own", func(t *testing.T) {
		w := runningWorld(t)
		h := usedHost(otherID, "mac-1")
		h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "attacker", Name: "mac-1", Token: "x"}
		w.create(h)
		m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "attacker", Name: "mac-1", Finalizers: []string{infrav1.MachineFinalizer}}}
		m.Spec.ProviderID = host.ProviderID(zone, serverID)
		m.Spec.HostRef = &infrav1.HostReference{Name: h.Name, ClaimToken: "x"}
		w.create(m)
		w.delete(m)
		for range 3 {
			_, _ = w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(m)})
		}
		node := &corev1.Node{}
		if w.gone(client.ObjectKey{Name: "mac-1"}, node) {
			t.Error("another's Node was deleted")
		}
	})
}
