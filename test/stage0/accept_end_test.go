package stage0

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/accept"
	"github.com/macfleet/macfleet/test/parttest"
)

// A run that is called off ends the suite of the driver, and its guests: on a Mac they would
// live on in a folder that is gone, and hold the licence's places.
func TestAcceptEndsTheSuiteAndItsGuests(t *testing.T) {
	parttest.Skip(t)
	b := newBench(t, withGuestProgram(programs.reach))
	o := b.acceptance(simulated(t), append(slices.DeleteFunc(noLooks(), func(name string) bool { return name == "guests" }), "reboot", "leave", "uninstall")...)
	b.withSuite(&o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := accept.Run(ctx, o)
		ended <- err
	}()
	awaitMoment(t, "a guest of the suite", func() bool { return appears("Users/m1/.macfleet/accept-tart/vms/tk-a-0/guest/pid")(b) })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if left := b.root(`pgrep -fl '[t]art (run|__guest) tk-|[t]art tart -home' || true`); strings.TrimSpace(left) != "" {
		t.Errorf("these run on:\n%s", left)
	}
	if appears("Users/m1/.macfleet/accept-tart")(b) {
		t.Error("the folder of tart is there still")
	}
}
