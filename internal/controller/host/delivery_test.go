package host

import (
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// callsOf counts the calls about the server itself; lists are the inventory's.
func (w *world) callsOf(server string) (n int) {
	for _, c := range w.cloud.Calls() {
		if c.Server == server {
			n++
		}
	}
	return n
}

// busy makes a server that is released while the vendor is at it, and refuses.
func busy(t *testing.T, status cloud.Status, policy infrav1.ReleasePolicy) *world {
	t.Helper()
	w := inUse(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = status })
	w.cloud.Fault = func(c cloudtest.Call) (error, error) {
		if c.Name == "ReinstallServer" {
			return cloudtest.Err(cloud.KindTransient), nil
		}
		return nil, nil
	}
	w.releaseAs(policy)
	w.cloud.Forget()
	return w
}

// An ordered server may take an hour to come. Released meanwhile, it is looked at
// in the lists, and not asked about again and again.
func TestAServerOnItsWayIsLeftAloneUntilItIsThere(t *testing.T) {
	w := busy(t, cloud.StatusStarting, infrav1.Recycle)
	for began := w.clock.Now(); w.clock.Since(began) < time.Hour; {
		w.must(w.step())
	}
	if n := w.callsOf(serverID); n > 8 || w.called("ReinstallServer") != 0 {
		t.Errorf("%d calls about the server in an hour, %d for a reinstall", n, w.called("ReinstallServer"))
	}
	if wipe := w.host().Spec.Record.Wipe; wipe.Repeats != 1 {
		t.Errorf("its time does not run: %+v", wipe)
	}
	w.cloud.Fault = nil
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusReady })
	w.wiped()
}

func TestAServerThatNeverComesIsGivenBackWhenItsTimeIsOver(t *testing.T) {
	w := busy(t, cloud.StatusStarting, infrav1.Terminate)
	for began := w.clock.Now(); w.clock.Since(began) < DefaultReinstallTimeout; {
		if w.called("DeleteServer") != 0 {
			t.Fatal("given back before its time is over")
		}
		w.must(w.step())
	}
	w.must(w.step())
	if w.called("DeleteServer") != 1 {
		t.Errorf("calls %v", w.mutations())
	}
}

func TestAServerInAStateThatNobodyKnowsIsAskedOnceAMinute(t *testing.T) {
	w := busy(t, "levitating", infrav1.Recycle)
	began := w.clock.Now()
	for w.clock.Since(began) < 10*time.Minute {
		_ = w.step()
	}
	most := int(w.clock.Since(began)/host.RepeatWipe) + 1
	if n := w.called("ReinstallServer"); n < 5 || n > most {
		t.Errorf("asked %d times in ten minutes, want 5 to %d", n, most)
	}
}
