package machine

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/requeue"
)

// disturbAnother uses up what may be disturbed within the hour: one of two hosts.
func (w *world) disturbAnother() {
	w.t.Helper()
	h := w.host(host.ObjectName(zone, otherID))
	host.RecordDisruption(h, w.clock.Now().Add(30*time.Minute))
	w.update(h)
}

// holds are the ways to hold recovery back, by the reason that is told.
func holds() map[string]func(w *world) {
	return map[string]func(w *world){
		infrav1.ReasonStormGuard:          (*world).disturbAnother,
		infrav1.ReasonInventorySuspicious: func(w *world) { w.report.Suspicious = true },
		infrav1.ReasonVendorFailing:       func(w *world) { w.report.Failing = true },
		"does not answer well enough":     func(w *world) { w.r.Zone = nil; w.r.wire() }, // no list yet
	}
}

func TestReturnToPoolIsHeldByStormGuard(t *testing.T) {
	for reason, hold := range holds() {
		t.Run(reason, func(t *testing.T) {
			w := failingWorld(t)
			w.r.RebootAfter = 0
			w.r.wire()
			w.failTimes(7)
			hold(w)
			w.failTimes(1)
			if h := w.host(hostName); h.Spec.Release != nil || w.machine("mac-1").Spec.HostRef == nil {
				t.Errorf("release = %+v, want the host kept", h.Spec.Release)
			}
			if got := w.message("mac-1", infrav1.BootstrappedCondition); w.reason("mac-1", infrav1.BootstrappedCondition) != infrav1.ReasonBootstrapExhausted || !strings.Contains(got, reason) || !host.WipeHeldBack(got) {
				t.Errorf("Bootstrapped = %s %q, want it to say that the wipe is held back, by %s", w.reason("mac-1", infrav1.BootstrappedCondition), got, reason)
			}
			if reason == infrav1.ReasonStormGuard {
				w.failTimes(2) // the hour passes
				if !host.WipeAllowed(w.host(hostName)) {
					t.Error("the storm is over, and the host is still held")
				}
			}
		})
	}
}

// A reboot interrupts as a wipe does: it is bounded alike, told of, and made up for
// when the hour is over.
func TestRebootHeldByStormGuardIsMadeLater(t *testing.T) {
	for reason, hold := range holds() {
		t.Run(reason, func(t *testing.T) {
			w := failingWorld(t)
			zones := w.r.Zone
			w.failTimes(2)
			hold(w)
			w.failTimes(1)
			if h := w.host(hostName); h.Spec.Reboot != nil || h.Spec.Record.DisturbedAt != nil {
				t.Errorf("reboot = %+v, disturbed at %v; want it held back", h.Spec.Reboot, h.Spec.Record.DisturbedAt)
			}
			if got := w.message("mac-1", infrav1.BootstrappedCondition); !strings.HasPrefix(got, "step dial failed") || !strings.Contains(got, "the reboot is held back") || !strings.Contains(got, reason) || w.reason("mac-1", infrav1.BootstrappedCondition) == infrav1.ReasonRebootingForRecovery {
				t.Errorf("Bootstrapped = %s %q, want the failure, and that %s", w.reason("mac-1", infrav1.BootstrappedCondition), got, reason)
			}
			w.r.Zone, w.report.Suspicious, w.report.Failing = zones, false, false
			w.r.wire()
			dials := len(w.mac.dials)
			w.failTimes(2) // and the hour passes
			h := w.host(hostName)
			if h.Spec.Reboot == nil || len(w.mac.dials) == dials {
				t.Fatalf("reboot = %+v, dialled %d times more; want the Mac tried, and then rebooted", h.Spec.Reboot, len(w.mac.dials)-dials)
			}
			if at := h.Spec.Record.DisturbedAt; at == nil || w.clock.Since(at.Time) > time.Hour {
				t.Errorf("disturbed at %v, want the reboot to count from when it was asked for", at)
			}
		})
	}
}

// The reboot of a claim does not hold up the wipe that follows it within the hour:
// no other host is disturbed by that.
func TestARebootDoesNotHoldUpItsOwnWipe(t *testing.T) {
	w := failingWorld(t)
	w.failTimes(3)
	w.takeReboot()
	w.failTimes(4)
	h := w.host(hostName)
	host.RecordDisruption(h, w.clock.Now().Add(59*time.Minute))
	w.update(h)
	w.failTimes(1)
	if h := w.host(hostName); !host.WipeAllowed(h) {
		t.Errorf("attempts = %d, Bootstrapped = %q; want it given up", h.Spec.Record.Bootstrap.Attempts, w.message("mac-1", infrav1.BootstrappedCondition))
	}
}

// Two recoveries at once would not count each other: the second looks again.
func TestRecoveriesCountOneAnother(t *testing.T) {
	for name, c := range map[string]struct {
		rebootAfter int
		begun       func(h *host.Host) bool
	}{
		"wipe":   {0, func(h *host.Host) bool { return host.WipeAllowed(h) && h.Spec.Failures.Count == 1 }},
		"reboot": {8, func(h *host.Host) bool { return h.Spec.Reboot != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			w := failingWorld(t)
			w.r.RebootAfter = c.rebootAfter
			w.r.wire()
			if c.rebootAfter > 0 {
				w.r.MaxAttempts = 0
				w.r.wire()
			}
			w.failTimes(7)
			w.r.disruptions.Lock()
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			key := client.ObjectKey{Namespace: namespace, Name: "mac-1"}
			w.visit("mac-1")
			w.awaitJobs(key)
			if result := w.visit("mac-1"); result.RequeueAfter != requeue.Delay || c.begun(w.host(hostName)) {
				t.Errorf("comes back after %s, spec = %+v", result.RequeueAfter, w.host(hostName).Spec)
			}
			w.r.disruptions.Unlock()
			w.settle("mac-1")
			if h := w.host(hostName); !c.begun(h) {
				t.Errorf("spec = %+v; want it begun once", h.Spec)
			}
		})
	}
}

// Nobody's host is given up or rebooted from an old copy: the Machine and its Cluster
// are read again before that is asked for.
func TestNoRecoveryFromAnOldCopy(t *testing.T) {
	for name, change := range changesBeforeRecovery() {
		for tier, rebootAfter := range recoveryTiers() {
			t.Run(name+", "+tier, func(t *testing.T) {
				w := failingWorld(t)
				w.recoverAfterChange(rebootAfter, change)
				if h := w.host(hostName); h.Spec.Release != nil || h.Spec.Reboot != nil || !bears(h, h.Spec.ClaimRef.Token) {
					t.Errorf("spec = %+v, want the host left alone", h.Spec)
				}
			})
		}
	}
}

// TestRecoveryOverwritesNoRelease: another manager, or a person, was faster.
func TestRecoveryOverwritesNoRelease(t *testing.T) {
	for tier, rebootAfter := range recoveryTiers() {
		t.Run(tier, func(t *testing.T) {
			w := failingWorld(t)
			w.recoverAfterChange(rebootAfter, func(w *world) {
				h := w.host(hostName)
				h.Spec.Release = &infrav1.Release{Token: h.Spec.ClaimRef.Token, Policy: infrav1.Reinstall, RequestedAt: metav1.NewMicroTime(start())}
				w.update(h)
			})
			h := w.host(hostName)
			if r := h.Spec.Release; r == nil || r.Policy != infrav1.Reinstall || r.Origin != "" || h.Spec.Reboot != nil {
				t.Errorf("release = %+v, reboot = %+v, want the first release alone", r, h.Spec.Reboot)
			}
		})
	}
}

// recoveryTiers are what recovery does, by the failures after which it reboots.
func recoveryTiers() map[string]int { return map[string]int{"wipe": 0, "reboot": 8} }

// recoverAfterChange lets the attempt fail that is answered by a reboot, or a wipe, and
// something change before that is recorded.
func (w *world) recoverAfterChange(rebootAfter int, change func(*world)) {
	w.t.Helper()
	w.r.RebootAfter = rebootAfter
	if rebootAfter > 0 {
		w.r.MaxAttempts = 0
	}
	w.r.wire()
	w.failTimes(7)
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.visit("mac-1")
	key := client.ObjectKey{Namespace: namespace, Name: "mac-1"}
	w.awaitJobs(key)
	reader := &intrudingReader{Reader: w.client}
	w.r.Reader = reader
	w.r.wire()
	reader.intrude = func() { change(w) }
	_, _ = w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
}

// changesBeforeRecovery happen between the decision and the act, and forbid it.
func changesBeforeRecovery() map[string]func(w *world) {
	return map[string]func(w *world){
		"paused": func(w *world) {
			m := w.machine("mac-1")
			m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			w.update(m)
		},
		"Cluster paused": func(w *world) {
			c := cluster()
			w.get(client.ObjectKeyFromObject(c), c)
			c.Spec.Paused = ptr.To(true)
			w.update(c)
		},
		"Cluster deleted": func(w *world) {
			c := cluster()
			w.get(client.ObjectKeyFromObject(c), c)
			c.Finalizers = []string{"test/hold"}
			w.update(c)
			w.delete(c)
		},
		"deleted": func(w *world) { w.delete(w.machine("mac-1")) },
		"provisioned": func(w *world) {
			m := w.machine("mac-1")
			m.Spec.ProviderID = host.ProviderID(zone, serverID)
			w.update(m)
		},
		"maintenance": func(w *world) {
			h := w.host(hostName)
			h.Spec.Maintenance = &infrav1.Maintenance{Reason: "fan"}
			w.update(h)
		},
		"renamed by another": func(w *world) {
			h := w.host(hostName)
			h.Status.Conditions[0].Status, h.Status.Conditions[0].Reason = metav1.ConditionFalse, infrav1.ReasonChangedByOther
			w.updateStatus(h)
		},
	}
}
