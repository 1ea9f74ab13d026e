package machine

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// endure reconciles through errors until a goal is reached. A failed write is a
// crash: the manager that met it is replaced, and its jobs are lost.
func (w *world) endure(failed *bool, goal func() bool) {
	w.t.Helper()
	key := types.NamespacedName{Namespace: namespace, Name: "mac-1"}
	for range 200 {
		_, _ = w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
		w.awaitJobs(key)
		if w.crashed(failed) {
			w.restart()
		}
		if goal() {
			return
		}
		w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	}
	w.t.Fatalf("it never gets there: %+v", w.machine("mac-1"))
}

// crashed reports once that the planned write has failed.
func (w *world) crashed(failed *bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := *failed
	*failed = false
	return was
}

// A Machine comes up and goes, and the n-th write fails, for every n. Whatever
// fails, the end is the same: one claim, one release of it, no token left.
func TestACrashAtAnyWriteConverges(t *testing.T) {
	for n := range 40 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t, append(pair("mac-1"), poolHost(serverID), poolHost(otherID))...)
			count, failed := 0, false
			w.fail = func(string, client.Object) error {
				count++
				if count == n+1 {
					failed = true
					return errPlain
				}
				return nil
			}
			w.endure(&failed, func() bool {
				return w.machine("mac-1").Spec.HostRef != nil && w.reason("mac-1", infrav1.HostClaimedCondition) == reasonClaimed
			})
			w.mu.Lock()
			fail := w.fail
			w.fail = func(string, client.Object) error { return nil }
			w.mu.Unlock()
			w.stage("mac-1", "secret-1")
			w.mu.Lock()
			w.fail = fail
			w.mu.Unlock()
			w.endure(&failed, func() bool { return w.machine("mac-1").Status.Initialization.Provisioned != nil })
			m := w.machine("mac-1")
			token := m.Spec.HostRef.ClaimToken
			claimed := w.host(m.Spec.HostRef.Name)
			if !host.HoldsClaim(claimed, token) || m.Spec.ProviderID != hostProviderID(claimed) {
				t.Fatalf("hostRef = %+v, claimRef = %+v, providerID = %s", m.Spec.HostRef, claimed.Spec.ClaimRef, m.Spec.ProviderID)
			}
			w.mu.Lock()
			w.fail = func(string, client.Object) error { return nil }
			w.mu.Unlock()
			w.create(&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			})
			w.endure(&failed, func() bool { return w.machine("mac-1").Status.Phase == phaseRunning })
			if len(w.tokens()) != 0 || len(w.mac.passwords) > 1 {
				t.Errorf("tokens = %q, passwords sent %d times", w.tokens(), len(w.mac.passwords))
			}
			for _, id := range []string{serverID, otherID} {
				if h := w.host(host.ObjectName(zone, id)); h.Name != claimed.Name && h.Spec.ClaimRef != nil {
					t.Errorf("another host is claimed too: %+v", h.Spec.ClaimRef)
				}
			}
		})
	}
}

// A Machine that runs is deleted, and the n-th write of that fails.
func TestACrashAtAnyWriteOfARelease(t *testing.T) {
	for n := range 8 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := runningWorld(t)
			token := w.machine("mac-1").Spec.HostRef.ClaimToken
			w.delete(w.machine("mac-1"))
			count, failed := 0, false
			w.mu.Lock()
			w.fail = func(string, client.Object) error {
				count++
				if count == n+1 {
					failed = true
					return errPlain
				}
				return nil
			}
			w.mu.Unlock()
			w.endure(&failed, func() bool { return w.machineGone("mac-1") })
			h := w.host(hostName)
			if !host.Licensed(h) || h.Spec.Release.Token != token || !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
				t.Errorf("release = %+v, want it recorded once for %s, and the Node gone", h.Spec.Release, token)
			}
		})
	}
}
