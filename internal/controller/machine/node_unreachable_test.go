package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/internal/rollout"
)

// A Machine that ran does not join again: its phase says that it is not heard of.
func TestPhasesDoNotGoBackToJoining(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	is := func(phase, reason string) {
		t.Helper()
		w.settle("mac-1")
		if m := w.machine("mac-1"); m.Status.Phase != phase || w.reason("mac-1", infrav1.NodeReadyCondition) != reason {
			t.Errorf("phase %s, NodeReady %s; want %s, %s", m.Status.Phase, w.reason("mac-1", infrav1.NodeReadyCondition), phase, reason)
		}
	}
	w.nodeStatus("mac-1", corev1.ConditionUnknown)
	since := w.clock.Now().UTC().Format(time.RFC3339)
	is(machine.PhaseUnreachable, infrav1.ReasonNodeUnreachable)
	if got := w.message("mac-1", infrav1.NodeReadyCondition); !strings.Contains(got, since) {
		t.Errorf("%q does not say since when", got)
	}
	w.nodeStatus("mac-1", corev1.ConditionFalse)
	is(machine.PhaseNotReady, infrav1.ReasonNodeNotReady)
	w.nodeStatus("mac-1", corev1.ConditionTrue)
	is(machine.PhaseRunning, infrav1.NodeReadyCondition)
	w.mac.set(func(f *fakeMac) { f.dialErr = &remote.Unreachable{Phase: remote.PhaseSession, Err: errPlain} })
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: "mac-1"}, node)
	w.delete(node)
	is(machine.PhaseNotReady, infrav1.ReasonNodeMissing)
	w.delete(w.host(hostName)) // the inventory has yet to rebuild it
	is(machine.PhaseNotReady, infrav1.ReasonWaitingForNode)
}

// While the vendor's lists fail, whatever waits for them says so.
func TestWhatWaitsForTheVendorSaysWhatItsZoneKnows(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.settle("mac-1")
	w.report.Err = &cloud.Error{Kind: cloud.KindUnavailable, Doing: "list servers of " + zone, Message: "no answer", RequestID: "req-1"}
	w.report.FailingSince = time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)
	const says = "the zone cannot be listed since 2026-11-23T04:00:00Z: list servers of " + zone + ": no answer"
	result := w.settle("mac-1")
	if got := w.message("mac-1", infrav1.BootstrappedCondition); w.reason("mac-1", infrav1.BootstrappedCondition) != infrav1.ReasonWaitingForHost || !strings.HasSuffix(got, says) {
		t.Errorf("a Machine that waits for its Mac's name says %q", got)
	}
	if result.RequeueAfter == 0 || result.RequeueAfter > waitPoll {
		t.Errorf("it looks again after %s", result.RequeueAfter)
	}
	w.report.Err = nil
	w.settle("mac-1")
	if got := w.message("mac-1", infrav1.BootstrappedCondition); strings.Contains(got, "listed") {
		t.Errorf("once the zone can be listed: %q", got)
	}
}

func TestAMachineWithoutAMacSaysWhatItsZoneKnows(t *testing.T) {
	w := newWorld(t, pair("mac-1")...)
	w.report.Err = &cloud.Error{Kind: cloud.KindUnavailable, Doing: "list servers", Message: "no answer"}
	w.settle("mac-1")
	if got := w.message("mac-1", infrav1.HostClaimedCondition); w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonNoAvailableHost || !strings.HasSuffix(got, "the zone cannot be listed: list servers: no answer") {
		t.Errorf("HostClaimed says %q", got)
	}
}

// One rename is one loss, however many passes it takes to write that down.
func TestLostClaimIsCountedOnce(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	h := w.host(hostName)
	h.Status.Conditions = []metav1.Condition{{Type: infrav1.NameInSyncCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonChangedByOther, LastTransitionTime: metav1.Now()}}
	h.Status.Server.Name = "theirs"
	w.updateStatus(h)
	for range 3 { // somebody else writes the Machine between its reading and its status
		w.once(func(verb string, object client.Object) bool {
			_, is := object.(*infrav1.ScalewayAppleSiliconMachine)
			return is
		}, func() { w.annotate("example.com/touched", time.Now().String()) })
		w.visit("mac-1")
	}
	w.settle("mac-1")
	w.settle("mac-1")
	if w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonClaimLost {
		t.Fatalf("HostClaimed = %s", w.reason("mac-1", infrav1.HostClaimedCondition))
	}
	if lost := testutil.ToFloat64(w.r.metrics.claims.WithLabelValues(claimLost)); lost != 1 {
		t.Errorf("%v losses are counted, want one", lost)
	}
}

// failsAt is what a Mac reports of a step that failed.
func failsAt(step string, class document.Class, detail string) error {
	report := document.Report{Verb: "converge", Steps: []document.StepReport{{Name: step, Outcome: document.Failed, Class: class, Detail: detail}}}
	return push.Classify(push.StepConverge, &remote.Failed{Report: report, Class: class})
}

// A failure that may be the network's is tried once more before it counts.
func TestAFailureThatMayBeNobodysFaultHasOneMoreTry(t *testing.T) {
	w, wanted := profiled(t)
	w.mac.set(func(f *fakeMac) { f.convErr = failsAt("tart", document.Retry, "the server does not answer") })
	w.turn("mac-1", wanted)
	w.settle("mac-1")
	update := w.machine("mac-1").Status.Update
	message := w.message("mac-1", infrav1.UpToDateCondition)
	if update.Failures != 0 || update.RetriedAt == nil || !update.RetriedAt.Equal(update.HeldAt) || w.reason("mac-1", infrav1.UpToDateCondition) != infrav1.ReasonHeld {
		t.Fatalf("update %+v, UpToDate %s: %s; want it tried once more", update, w.reason("mac-1", infrav1.UpToDateCondition), message)
	}
	if strings.Count(message, "tart") != 1 || strings.Count(message, "(retry)") != 1 || !strings.Contains(message, "once more in 5m") {
		t.Errorf("UpToDate says %q", message)
	}
	w.clock.SetTime(w.clock.Now().Add(rollout.HeldBackoff))
	w.settle("mac-1")
	if update := w.machine("mac-1").Status.Update; update.Failures != 1 {
		t.Errorf("after the second failure: %+v", update)
	}
}

// The status was written, and the manager does not know it: that was the one try, and the
// next comes in its time.
func TestAFailedUpdateCountsOnceAfterALostAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		failures int32
		wait     time.Duration
	}{
		"it has one more try": {failsAt("tart", document.Retry, "the server does not answer"), 0, rollout.HeldBackoff},
		"it counts at once":   {failsAt("tart", document.Human, "other bytes came"), 1, rollout.Backoff(1)},
	} {
		t.Run(name, func(t *testing.T) {
			w, wanted := profiled(t)
			w.clock.SetTime(w.clock.Now().Add(time.Millisecond)) // a status tells no fractions of a second
			w.mac.set(func(f *fakeMac) { f.convErr = c.err })
			w.turn("mac-1", wanted)
			w.loseOnce(errPlain, func(o client.Object) bool {
				m, is := o.(*infrav1.ScalewayAppleSiliconMachine)
				return is && (m.Status.Update.HeldAt != nil || m.Status.Update.LastFailedAt != nil)
			})
			last := w.look(6)
			if u := w.machine("mac-1").Status.Update; u.Failures != c.failures || len(w.mac.desired) != 2 {
				t.Errorf("update %+v after %d pushes, want %d failures after one", u, len(w.mac.desired)-1, c.failures)
			}
			if last.RequeueAfter <= 0 || last.RequeueAfter > c.wait {
				t.Errorf("tries again after %s, want %s", last.RequeueAfter, c.wait)
			}
			w.clock.SetTime(w.clock.Now().Add(c.wait))
			w.settle("mac-1")
			if u := w.machine("mac-1").Status.Update; u.Failures != c.failures+1 {
				t.Errorf("after the next try: %+v, want one failure more", u)
			}
		})
	}
}

func TestAFailureOfTheRevisionCountsAtOnce(t *testing.T) {
	w, wanted := profiled(t)
	w.mac.set(func(f *fakeMac) { f.convErr = failsAt("tart", document.Human, "other bytes came") })
	w.turn("mac-1", wanted)
	w.settle("mac-1")
	if update := w.machine("mac-1").Status.Update; update.Failures != 1 || update.RetriedAt != nil {
		t.Errorf("update %+v", update)
	}
}
