package host

import (
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
)

// refusing has the vendor refuse one call for as long as until is not over.
func (w *world) refusing(name string, kind cloud.Kind) (until *bool) {
	over := false
	w.cloud.Fault = func(call cloudtest.Call) (before, after error) {
		if call.Name == name && !over {
			return cloudtest.Err(kind), nil
		}
		return nil, nil
	}
	return &over
}

// goesOn steps for as long as the clock needs.
func (w *world) goesOn(d time.Duration) {
	w.t.Helper()
	for until := w.clock.Now().Add(d); w.clock.Now().Before(until); {
		_ = w.step()
		w.clock.Step(20 * time.Second)
	}
}

// What a vendor calls passing may not pass. A Mac that cannot be wiped is told of in time,
// whatever word it is refused with, and is wiped when the vendor lets it be.
func TestAReinstallThatIsRefusedForEverIsQuarantined(t *testing.T) {
	for name, c := range map[string]struct {
		kind   cloud.Kind
		status cloud.Status
	}{
		"transient_state":               {cloud.KindTransient, cloud.StatusReady},
		"transient_state while busy":    {cloud.KindTransient, "busy"},
		"transient_state, no one knows": {cloud.KindTransient, "unknown_status"},
		"locked":                        {cloud.KindLocked, cloud.StatusReady},
		"locked, and shown so":          {cloud.KindLocked, "locked"},
		"throttled":                     {cloud.KindThrottled, cloud.StatusReady},
	} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			over := w.refusing("ReinstallServer", c.kind)
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = c.status })
			w.release()
			w.goesOn(2*DefaultReinstallTimeout - 5*time.Minute)
			if h := w.host(); h.Spec.Quarantine != nil || h.Status.Phase != infrav1.HostReleasing || h.Spec.Release == nil {
				t.Fatalf("early: phase %s, spec %+v", h.Status.Phase, h.Spec)
			}
			w.goesOn(10 * time.Minute)
			h := w.host()
			if h.Status.Phase != infrav1.HostQuarantined || h.Spec.Quarantine == nil || h.Spec.Quarantine.Reason != infrav1.ReasonWipeTimedOut || h.Spec.Release == nil || h.Spec.ClaimRef == nil {
				t.Fatalf("phase %s, spec %+v", h.Status.Phase, h.Spec)
			}
			if got := w.reason(infrav1.WipedCondition); got != infrav1.ReasonWipeTimedOut {
				t.Errorf("Wiped says %s", got)
			}
			if got := w.serverName(); got != "m-1" {
				t.Errorf("a server that was not wiped is named %s", got)
			}
			*over = true
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusReady })
			w.until("asked", func() bool { s, _ := w.cloud.Server(serverID); return s.Status == cloud.StatusReinstalling })
			w.cloud.Finish(serverID)
			w.untilPhase(infrav1.HostAvailable)
			if h := w.host(); h.Spec.Quarantine != nil || h.Spec.Release != nil {
				t.Errorf("not free: %+v", h.Spec)
			}
		})
	}
}

// An outage of the vendor's says nothing of a Mac: what cannot be read is not judged.
func TestAVendorThatDoesNotAnswerQuarantinesNothing(t *testing.T) {
	w := inUse(t)
	w.release()
	w.cloud.Fault = func(cloudtest.Call) (before, after error) { return cloudtest.Err(cloud.KindUnavailable), nil }
	w.goesOn(5 * DefaultReinstallTimeout)
	if h := w.host(); h.Spec.Quarantine != nil || h.Spec.Record.Wipe.Repeats != 0 {
		t.Errorf("spec %+v", h.Spec)
	}
	w.cloud.Fault = nil
	w.wiped()
	w.checkFree()
}
