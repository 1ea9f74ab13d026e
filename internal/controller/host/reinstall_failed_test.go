package host

import (
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// A reinstall that the vendor shows in error never was: that the server is ready
// later says nothing about its disk. It is asked for again, and only the end of a
// reinstall that was seen makes the host free.
func TestAReinstallInErrorIsNoWipe(t *testing.T) {
	w := stuck(t)
	w.cloud.Forget()
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusError })
	w.until("the failure is recorded", func() bool { return w.host().Spec.Record.Wipe.StartedAt == nil })
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusReady })
	w.until("asked again", func() bool { return w.called("ReinstallServer") > 0 })
	if h := w.host(); h.Spec.Release == nil || h.Spec.Record.Wipe.ObservedAt != nil {
		t.Fatalf("a failed reinstall counts: %+v", h.Spec)
	}
	w.until("seen to start", func() bool { return w.host().Spec.Record.Wipe.StartedAt != nil })
	w.cloud.Finish(serverID)
	w.untilPhase(infrav1.HostAvailable)
}

// The same of a reinstall by hand, of a host that nobody has.
func TestAReinstallByHandInErrorIsNoWipe(t *testing.T) {
	w := inUse(t)
	w.detach()
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name, s.Status = poolName, cloud.StatusReinstalling })
	w.until("seen to start", func() bool { return w.host().Spec.Record.Wipe.StartedAt != nil })
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusError })
	w.until("forgotten", func() bool { return w.host().Spec.Record.Wipe.StartedAt == nil })
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusReady })
	for range 5 {
		w.clock.Step(time.Minute)
		w.must(w.step())
	}
	if phase := w.phase(); phase != infrav1.HostDirty {
		t.Errorf("phase %s, want %s", phase, infrav1.HostDirty)
	}
}
