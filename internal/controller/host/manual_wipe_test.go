package host

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

func blockedHosts(w *world, reason string) float64 {
	return testutil.ToFloat64(w.counted().blocked.WithLabelValues(zone, reason))
}

// dirty is a world whose host was owned, and let go without a wipe.
func dirty(t *testing.T) *world {
	t.Helper()
	w := inUse(t)
	h := w.host()
	h.Spec.ClaimRef = nil
	w.must(w.client.Update(w.ctx, h))
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = prefix + "1" })
	w.untilPhase(infrav1.HostDirty)
	return w
}

func TestAReinstallByHandMakesAHostClean(t *testing.T) {
	w := dirty(t)
	epoch := w.host().Spec.Record.InstallEpoch
	if blockedHosts(w, "notwiped") != 1 {
		t.Error("not counted")
	}
	w.clock.Step(time.Hour)
	w.must(w.step())
	if w.phase() != infrav1.HostDirty {
		t.Fatalf("phase %s without a wipe", w.phase())
	}
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusReinstalling })
	w.until("seen", func() bool { return w.host().Spec.Record.Wipe.StartedAt != nil })
	w.start(w.r.Options) // what was seen outlives the manager
	w.cloud.Finish(serverID)
	w.untilPhase(infrav1.HostAvailable)
	record := w.host().Spec.Record
	if record.InstallEpoch != epoch+1 || record.Wipe.RequestedAt != nil || !record.Wipe.ObservedAt.After(record.Wipe.RequiredSince.Time) {
		t.Errorf("record %+v", record)
	}
	if len(w.mutations()) != 0 {
		t.Errorf("mutations %v", w.mutations())
	}
}

func TestARebootOfADirtyHostIsNoWipe(t *testing.T) {
	w := dirty(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusRebooting })
	w.untilPhase(infrav1.HostDiscovered)
	w.cloud.Finish(serverID)
	for range 5 {
		w.clock.Step(time.Minute)
		w.must(w.step())
	}
	if w.phase() != infrav1.HostDirty {
		t.Errorf("phase %s", w.phase())
	}
}

func TestAReinstallByHandDoesNotCountForAClaimMadeMeanwhile(t *testing.T) {
	w := dirty(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusReinstalling })
	w.until("seen", func() bool { return w.host().Spec.Record.Wipe.StartedAt != nil })
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status, s.Name = cloud.StatusReady, "m-1" })
	w.claim("m-1", "t-1")
	w.untilPhase(infrav1.HostInUse)
	w.guard()
	w.release()
	w.wiped()
	if got := w.mutations(); len(got) != 2 || got[0] != "ReinstallServer" {
		t.Errorf("mutations %v", got)
	}
}

func TestAFailedReinstallSaysSoOnceAndIsNeverFree(t *testing.T) {
	w := inUse(t)
	w.release()
	w.untilReinstalling()
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusError })
	for range 5 {
		w.clock.Step(time.Minute)
		w.must(w.step())
	}
	if got := w.reason(infrav1.WipedCondition); got != infrav1.ReasonReinstallFailed || w.phase() != infrav1.HostReleasing {
		t.Errorf("reason %s in phase %s", got, w.phase())
	}
	told := 0
	recorder := w.r.Recorder.(*events.FakeRecorder)
	for range len(recorder.Events) {
		if text := <-recorder.Events; strings.HasPrefix(text, "Warning "+infrav1.ReasonReinstallFailed) {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	w.cloud.Finish(serverID) // it can be reinstalled again, and is
	w.wiped()
}

func TestAReleaseHeldByAForeignNameIsCounted(t *testing.T) {
	w := inUse(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "other-cluster-7" })
	w.release()
	w.until("held", func() bool { return blockedHosts(w, "held") == 1 })
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "m-1" })
	w.untilPhase(infrav1.HostWiping)
	if blockedHosts(w, "held") != 0 {
		t.Error("still counted")
	}
}
