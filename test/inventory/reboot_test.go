package inventory_test

import (
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	sandbox "github.com/macfleet/macfleet/sandbox/scaleway"
)

func TestARebootOnTheWire(t *testing.T) {
	for _, c := range []struct{ name, diagnostics, reachable string }{
		{"the vendor diagnoses", sandbox.EndsWell, "Healthy"},
		{"its diagnostic fails", sandbox.EndsInError, "Unreachable"},
		{"its diagnostic hangs", sandbox.EndsNever, "NoAnswer"},
		{"it does not diagnose", sandbox.Unavailable, "NoAnswer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, sandbox.Options{Knobs: sandbox.Knobs{Diagnostics: c.diagnostics}})
			ids := w.pool(1)
			w.step(30 * time.Second)
			h := w.host(ids[0])
			h.Spec.Reboot = &infrav1.RebootRequest{ID: "r-1", Reason: "x", Force: true}
			w.must(w.client.Update(w.ctx, h))
			asked := w.clock.Now()
			w.until("taken", 5*time.Second, func() bool { return w.host(ids[0]).Spec.Reboot == nil })
			if waited := w.clock.Since(asked); waited > 90*time.Second {
				t.Errorf("waited %s", waited)
			}
			if h := w.host(ids[0]); h.Status.LastReboot.ID != "r-1" || w.reason(h, infrav1.ReachableCondition) != c.reachable {
				t.Errorf("got %+v", h.Status)
			}
			w.until("ready", 30*time.Second, func() bool { return w.host(ids[0]).Status.Phase == infrav1.HostAvailable })
			reboots := 0
			for _, call := range w.mutations() {
				if call == "RebootServer" {
					reboots++
				}
			}
			if reboots != 1 {
				t.Errorf("%d reboots", reboots)
			}
		})
	}
}
