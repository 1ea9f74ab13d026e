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
	"github.com/macfleet/macfleet/internal/machine"
)

// fault fails one write, before it is done or after: a crash of the manager.
type fault struct {
	w *world
	// at is which write fails, counted from 0; seen is how many there were.
	at, seen int
	// crashed says that it has just fired, fired that it ever did.
	crashed, fired bool
}

// strike is asked at each write.
func (f *fault) strike(string, client.Object) error {
	f.seen++
	if f.seen != f.at+1 {
		return nil
	}
	f.crashed, f.fired = true, true
	return errPlain
}

// arm plans the fault for the writes to come; disarm ends it.
func (f *fault) arm(after bool) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if after {
		f.w.lose = f.strike
	} else {
		f.w.fail = f.strike
	}
}

func (f *fault) disarm() {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.fail, f.w.lose = noFault, noFault
}

// justCrashed reports once that the fault has struck.
func (f *fault) justCrashed() bool {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	was := f.crashed
	f.crashed = false
	return was
}

// loseOnce has the answer lost, or another given, to the first write that is picked.
func (w *world) loseOnce(answer error, picks func(object client.Object) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = func(_ string, object client.Object) error {
		if !picks(object) {
			return nil
		}
		w.lose = noFault // write holds w.mu
		return answer
	}
}

// look reconciles so often, whatever comes of it, and waits for the jobs.
func (w *world) look(times int) (last ctrl.Result) {
	w.t.Helper()
	key := types.NamespacedName{Namespace: namespace, Name: "mac-1"}
	for range times {
		last, _ = w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
		w.awaitJobs(key)
	}
	return last
}

// endure reconciles through errors until a goal is reached. A failed write is a
// crash: the manager that met it is replaced, and its jobs are lost.
func (w *world) endure(f *fault, goal func() bool) {
	w.t.Helper()
	key := types.NamespacedName{Namespace: namespace, Name: "mac-1"}
	for range 200 {
		_, _ = w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
		w.awaitJobs(key)
		if f.justCrashed() {
			w.restart()
		}
		if goal() {
			return
		}
		w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	}
	w.t.Fatalf("it never gets there: %+v", w.machine("mac-1"))
}

// atAnyWrite runs a history again and again with the fault at each of its writes,
// before and after the effect, until it has no such write any more.
func atAnyWrite(t *testing.T, atLeast int, history func(t *testing.T, n int, after bool) (fired bool)) {
	t.Helper()
	for _, after := range []bool{false, true} {
		n, fired := 0, true
		for ; fired; n++ {
			ran := t.Run(fmt.Sprintf("after=%t/%d", after, n), func(t *testing.T) { fired = history(t, n, after) })
			if !ran || n > 100 {
				return
			}
		}
		if n <= atLeast {
			t.Errorf("only %d writes were tried, want at least %d", n-1, atLeast)
		}
	}
}

// A Machine comes up, and the n-th write fails, for every n. Whatever fails, the
// end is the same: one claim, one password sent, no token left.
func TestACrashAtAnyWriteConverges(t *testing.T) {
	atAnyWrite(t, 15, func(t *testing.T, n int, after bool) bool {
		w := newWorld(t, append(pair("mac-1"), poolHost(serverID), poolHost(otherID))...)
		f := &fault{w: w, at: n}
		f.arm(after)
		w.endure(f, func() bool {
			return w.machine("mac-1").Spec.HostRef != nil && w.reason("mac-1", infrav1.HostClaimedCondition) == machine.ReasonClaimed
		})
		f.disarm()
		w.stage("mac-1", "secret-1")
		f.arm(after)
		w.endure(f, func() bool {
			// An attempt that was recorded counts as made, also where the manager died
			// before it sent the password: then another password is needed.
			if f.fired && len(w.mac.passwords) == 0 && w.reason("mac-1", infrav1.BootstrappedCondition) == infrav1.ReasonMissingSudoPassword {
				w.stage("mac-1", "secret-2")
			}
			return w.machine("mac-1").Status.Initialization.Provisioned != nil
		})
		m := w.machine("mac-1")
		claimed := w.host(m.Spec.HostRef.Name)
		if !host.HoldsClaim(claimed, m) || m.Spec.ProviderID != machine.ProviderID(claimed) {
			t.Fatalf("hostRef = %+v, claimRef = %+v, providerID = %s", m.Spec.HostRef, claimed.Spec.ClaimRef, m.Spec.ProviderID)
		}
		f.disarm()
		w.create(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		})
		f.arm(after)
		w.endure(f, func() bool { return w.machine("mac-1").Status.Phase == machine.PhaseRunning && len(w.tokens()) == 0 })
		if len(w.mac.passwords) > 1 {
			t.Errorf("passwords sent %d times", len(w.mac.passwords))
		}
		for _, id := range []string{serverID, otherID} {
			if h := w.host(host.ObjectName(zone, id)); h.Name != claimed.Name && h.Spec.ClaimRef != nil {
				t.Errorf("another host is claimed too: %+v", h.Spec.ClaimRef)
			}
		}
		return f.fired
	})
}

// A Machine that runs is deleted, and the n-th write of that fails.
func TestACrashAtAnyWriteOfARelease(t *testing.T) {
	atAnyWrite(t, 3, func(t *testing.T, n int, after bool) bool {
		w := runningWorld(t)
		token := w.machine("mac-1").Spec.HostRef.ClaimToken
		w.delete(w.machine("mac-1"))
		f := &fault{w: w, at: n}
		f.arm(after)
		w.endure(f, func() bool { return w.machineGone("mac-1") })
		h := w.host(hostName)
		if !host.WipeAllowed(h) || h.Spec.Release.Token != token || !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
			t.Errorf("release = %+v, want it recorded once for %s, and the Node gone", h.Spec.Release, token)
		}
		return f.fired
	})
}

// The other exits, with the n-th write failing.
func TestACrashAtAnyWriteOfAnExit(t *testing.T) {
	for name, c := range map[string]struct {
		policy infrav1.ReleasePolicy
		ended  func(h *host.Host) bool
	}{
		"terminate": {infrav1.Terminate, func(h *host.Host) bool { return host.WipeAllowed(h) && h.Spec.Release.Policy == infrav1.Terminate }},
		"detach": {infrav1.Detach, func(h *host.Host) bool {
			return h.Spec.ClaimRef == nil && h.Spec.Release == nil && h.Spec.Record.DetachedAt != nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			atAnyWrite(t, 3, func(t *testing.T, n int, after bool) bool {
				w := runningWorld(t)
				m := w.machine("mac-1")
				m.Spec.ReleasePolicy = c.policy
				w.update(m)
				w.delete(w.machine("mac-1"))
				f := &fault{w: w, at: n}
				f.arm(after)
				w.endure(f, func() bool { return w.machineGone("mac-1") })
				if h := w.host(hostName); !c.ended(h) || !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
					t.Errorf("spec = %+v, want it ended, and the Node gone", h.Spec)
				}
				return f.fired
			})
		})
	}
}

// A Mac that never answers is given up, and the n-th write of that fails: its host
// is released once, and the Machine holds another one.
func TestACrashAtAnyWriteOfAReturn(t *testing.T) {
	atAnyWrite(t, 5, func(t *testing.T, n int, after bool) bool {
		w := failingWorld(t)
		w.r.RebootAfter = 0
		w.r.wire()
		w.failTimes(6)
		f := &fault{w: w, at: n}
		f.arm(after)
		w.endure(f, func() bool {
			w.r.RebootAfter, w.r.MaxAttempts = 0, 8
			w.r.wire()
			w.clock.SetTime(w.clock.Now().Add(10 * time.Minute))
			w.report.At = w.clock.Now()
			ref := w.machine("mac-1").Spec.HostRef
			return ref != nil && ref.Name != hostName && bears(w.host(ref.Name), ref.ClaimToken)
		})
		f.disarm()
		if h := w.host(hostName); !host.WipeAllowed(h) || h.Spec.Failures.Count != 1 || h.Spec.Release.Policy != infrav1.Recycle {
			t.Errorf("release = %+v, failures = %+v; want one of each", h.Spec.Release, h.Spec.Failures)
		}
		return f.fired
	})
}

// failToRemoveFinalizer reconciles so often, and no write that removes the finalizer of
// a Machine comes to anything.
func (w *world) failToRemoveFinalizer(times int) {
	w.t.Helper()
	w.fail = func(verb string, object client.Object) error {
		if m, is := object.(*infrav1.ScalewayAppleSiliconMachine); is && verb == "patch" && len(m.Finalizers) == 0 {
			return errPlain
		}
		return nil
	}
	key := client.ObjectKey{Namespace: namespace, Name: "mac-1"}
	for range times {
		_, _ = w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
		w.awaitJobs(key)
	}
}
