package host

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
)

// stuck is a world whose host is released, and reinstalling.
func stuck(t *testing.T) *world {
	t.Helper()
	w := inUse(t)
	w.guard()
	w.release()
	w.untilReinstalling()
	return w
}

func TestAWipeThatTimesOutIsAskedForAgainAndThenQuarantined(t *testing.T) {
	w := stuck(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusError })
	w.clock.Step(DefaultReinstallTimeout)
	w.cloud.Forget()
	w.until("asked again", func() bool { return w.called("ReinstallServer") > 0 })
	if h := w.host(); h.Spec.Record.Wipe.Repeats != 1 || h.Spec.Quarantine != nil || w.told("Warning "+infrav1.ReasonWipeTimedOut) != 0 {
		t.Fatalf("spec %+v", h.Spec)
	}
	w.clock.Step(DefaultReinstallTimeout)
	w.untilPhase(infrav1.HostQuarantined)
	h := w.host()
	if h.Spec.Release == nil || h.Spec.ClaimRef == nil || h.Spec.Quarantine.Reason != infrav1.ReasonReinstallFailed {
		t.Fatalf("spec %+v", h.Spec)
	}
	if w.reason(infrav1.WipedCondition) != infrav1.ReasonReinstallFailed || w.reason(infrav1.AvailableCondition) != infrav1.ReasonQuarantined {
		t.Errorf("reason %s", w.reason(infrav1.WipedCondition))
	}
	if got := w.serverName(); got != "m-1" {
		t.Errorf("a server that was not wiped is named %s", got)
	}
	if told := w.events(); !slices.ContainsFunc(told, func(e string) bool {
		return strings.HasPrefix(e, "Warning Quarantined the host is quarantined: ReinstallFailed")
	}) ||
		!slices.Contains(told, "Warning ReinstallFailed the vendor shows the server in error after its reinstall, for the second time; the host is quarantined") {
		t.Errorf("events %q", told)
	}
	for range 5 {
		w.clock.Step(time.Hour)
		_ = w.step()
	}
	if told := w.events(); len(told) != 0 || w.phase() != infrav1.HostQuarantined {
		t.Error("not quarantined once and for all")
	}
	w.cloud.Finish(serverID) // it can be reinstalled again
	w.until("asked", func() bool { s, _ := w.cloud.Server(serverID); return s.Status == cloud.StatusReinstalling })
	w.cloud.Finish(serverID)
	w.untilPhase(infrav1.HostAvailable)
	if h := w.host(); h.Spec.Quarantine != nil || h.Spec.Record.Wipe.Repeats != 0 {
		t.Errorf("spec %+v", h.Spec)
	}
}

// events are those that were told since they were last asked for.
func (w *world) events() (told []string) {
	recorder := w.r.Recorder.(*events.FakeRecorder)
	for range len(recorder.Events) {
		told = append(told, <-recorder.Events)
	}
	return told
}

// A failed wipe is told as one when its quarantine is lifted, too, and while it is
// asked for again.
func TestAFailedWipeIsAskedForAgainAfterItsQuarantine(t *testing.T) {
	w := stuck(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusError })
	w.until("asked again", func() bool { return w.host().Spec.Record.Wipe.Repeats == 1 })
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusError })
	w.clock.Step(DefaultReinstallTimeout)
	w.untilPhase(infrav1.HostQuarantined)
	w.events()
	h := w.host()
	h.Spec.Quarantine = nil
	w.must(w.client.Update(t.Context(), h))
	w.until("asked for again", func() bool { return w.host().Spec.Record.Wipe.Repeats == 1 })
	told := w.events()
	if !slices.Contains(told, "Warning ReinstallFailed the vendor shows the server in error after its reinstall; the quarantine is over, and it is asked for again") ||
		slices.ContainsFunc(told, func(e string) bool { return strings.Contains(e, infrav1.ReasonWipeTimedOut) }) {
		t.Errorf("events %q", told)
	}
}

func TestALateEndOfAWipeCounts(t *testing.T) {
	w := stuck(t)
	w.clock.Step(DefaultReinstallTimeout)
	w.must(w.step())
	w.clock.Step(DefaultReinstallTimeout)
	w.untilPhase(infrav1.HostQuarantined)
	if n := w.called("ReinstallServer"); n != 1 {
		t.Errorf("asked %d times while the vendor reinstalls", n)
	}
	const unseen = "the reinstall was not seen to end in time" // it may never have begun
	if told := w.events(); !slices.Contains(told, "Warning WipeTimedOut "+unseen+", for the second time; the host is quarantined") ||
		w.message(infrav1.WipedCondition) != unseen+", twice; a late end still counts" {
		t.Errorf("Wiped says %q; events %q", w.message(infrav1.WipedCondition), told)
	}
	w.cloud.Forget()
	for range 5 {
		w.clock.Step(time.Hour)
		w.must(w.step())
	}
	if w.called("GetServer") != 0 {
		t.Errorf("calls %v", w.cloud.Calls())
	}
	w.cloud.Finish(serverID)
	w.untilPhase(infrav1.HostAvailable)
}

func TestAQuarantineTakenOffAsksForTheWipeAgain(t *testing.T) {
	w := stuck(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusError })
	w.clock.Step(DefaultReinstallTimeout)
	_ = w.step()
	w.clock.Step(DefaultReinstallTimeout)
	w.untilPhase(infrav1.HostQuarantined)
	w.clock.Step(time.Hour)
	asked := w.called("ReinstallServer")
	h := w.host()
	h.Spec.Quarantine = nil
	w.must(w.client.Update(w.ctx, h))
	_ = w.step()
	if w.called("ReinstallServer") != asked+1 || w.host().Spec.Record.Wipe.Repeats != 1 {
		t.Errorf("asked %d times, record %+v", w.called("ReinstallServer")-asked, w.host().Spec.Record.Wipe)
	}
}

func TestAReinstallRefusedForGoodSaysSoAndIsAskedAgain(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.KindForbidden, cloud.KindInvalid, cloud.KindFloor} {
		t.Run(string(kind), func(t *testing.T) {
			w := inUse(t)
			refuses := true
			w.cloud.Fault = func(call cloudtest.Call) (error, error) {
				if call.Name == "ReinstallServer" && refuses {
					return cloudtest.Err(kind), nil
				}
				return nil, nil
			}
			w.release()
			for range 5 {
				_ = w.step()
			}
			if w.reason(infrav1.WipedCondition) != infrav1.ReasonWipeRejected || w.phase() != infrav1.HostReleasing || w.called("ReinstallServer") < 3 {
				t.Errorf("reason %s in phase %s, asked %d times", w.reason(infrav1.WipedCondition), w.phase(), w.called("ReinstallServer"))
			}
			if got := w.told("Warning " + infrav1.ReasonWipeRejected); got != 1 {
				t.Errorf("told %d times", got)
			}
			refuses = false
			w.wiped()
			w.checkFree()
		})
	}
}

func TestAnImageThatIsRefusedGivesWayToTheDefault(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.KindInvalid, cloud.KindNotFound} {
		t.Run(string(kind), func(t *testing.T) {
			w := inUse(t)
			w.cloud.Images = map[string]cloud.OS{"tahoe": {ID: "image-1"}}
			w.cloud.Fault = func(call cloudtest.Call) (error, error) {
				if call.Name == "ReinstallServer" && call.Arg == "image-1" {
					return cloudtest.Err(kind), nil
				}
				return nil, nil
			}
			w.release()
			h := w.host()
			h.Spec.Release.OSFamily = "tahoe"
			w.must(w.client.Update(w.ctx, h))
			w.wiped()
			if w.told("Warning OSUnpublished") != 1 {
				t.Error("not told")
			}
		})
	}
}

// Whether the vendor took a request whose answer is lost is not known: another image in the
// midst of that reinstall is no answer.
func TestAnImageStaysTheWantedOneWhileTheVendorFails(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.KindUnavailable, cloud.KindThrottled, cloud.KindLocked, cloud.KindForbidden} {
		w := inUse(t)
		w.cloud.Images = map[string]cloud.OS{"tahoe": {ID: "image-1"}}
		w.cloud.Fault = func(call cloudtest.Call) (error, error) {
			if call.Name == "ReinstallServer" {
				return cloudtest.Err(kind), nil
			}
			return nil, nil
		}
		w.release()
		h := w.host()
		h.Spec.Release.OSFamily = "tahoe"
		w.must(w.client.Update(w.ctx, h))
		w.until("asked", func() bool { return w.called("ReinstallServer") > 0 })
		if got := slices.Compact(w.mutations()); !slices.Equal(got, []string{"ReinstallServer image-1"}) {
			t.Errorf("%v: asked %q", kind, got)
		}
	}
}

func TestAQuarantineEndsByItself(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	h := w.host()
	until := metav1.NewTime(w.clock.Now().Add(time.Hour))
	h.Spec.Quarantine = &infrav1.Quarantine{Reason: "disk errors", Until: &until}
	w.must(w.client.Update(w.ctx, h))
	result, err := w.reconcile()
	w.must(err)
	if w.phase() != infrav1.HostQuarantined || !strings.Contains(w.message(infrav1.AvailableCondition), "disk errors") {
		t.Fatalf("phase %s: %s", w.phase(), w.message(infrav1.AvailableCondition))
	}
	if result.RequeueAfter != time.Hour {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	w.clock.Step(result.RequeueAfter)
	_, err = w.reconcile()
	w.must(err)
	if w.phase() != infrav1.HostAvailable || w.host().Spec.Quarantine != nil {
		t.Errorf("phase %s", w.phase())
	}
}

func TestAQuarantineEndsNoClaim(t *testing.T) {
	w := inUse(t)
	h := w.host()
	h.Spec.Quarantine = &infrav1.Quarantine{Reason: "disk errors"}
	h.Spec.Maintenance = &infrav1.Maintenance{Reason: "new disk on Friday"}
	w.must(w.client.Update(w.ctx, h))
	w.must(w.step())
	if w.phase() != infrav1.HostInUse {
		t.Fatalf("phase %s", w.phase())
	}
	w.release() // of a deleted Machine: wiped, maintenance or not
	w.until("wiping", func() bool { s, _ := w.cloud.Server(serverID); return s.Status == cloud.StatusReinstalling })
	w.cloud.Finish(serverID)
	w.untilPhase(infrav1.HostMaintenance)
	h = w.host()
	h.Spec.Maintenance = nil
	w.must(w.client.Update(w.ctx, h))
	w.untilPhase(infrav1.HostQuarantined)
	if h.Spec.ClaimRef != nil {
		t.Errorf("claim %+v", h.Spec.ClaimRef)
	}
}
