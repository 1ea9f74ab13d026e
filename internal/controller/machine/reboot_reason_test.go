package machine

import (
	"strings"
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Who reads of a reboot sees the failure that led to it: in the event, while it is asked for,
// while it waits, and while the Mac comes up again.
func TestARebootSaysWhichFailureLedToIt(t *testing.T) {
	const failure = "3 attempts failed; last failure: step dial failed ("
	w := failingWorld(t)
	w.failTimes(3)
	if got := w.host(hostName).Spec.Reboot.Reason; !strings.Contains(got, failure) {
		t.Errorf("spec.reboot.reason is %q, want %q in it", got, failure)
	}
	told := strings.Join(w.heard(), "\n")
	if at := strings.Index(told, infrav1.ReasonRebootingForRecovery); at < 0 || !strings.Contains(told[at:], failure) {
		t.Errorf("events: %s; want %q in that of the reboot", told, failure)
	}
	for _, c := range []struct {
		when string
		act  func()
	}{
		{"asked for", func() { w.settle("mac-1") }},
		{"refused", func() { w.refuseReboot("the vendor refuses") }},
		{"taken", func() { w.takeReboot(); w.settle("mac-1") }},
	} {
		c.act()
		if got := w.message("mac-1", infrav1.BootstrappedCondition); w.reason("mac-1", infrav1.BootstrappedCondition) != infrav1.ReasonRebootingForRecovery || !strings.Contains(got, failure) {
			t.Errorf("%s: Bootstrapped says %q, want %q in it", c.when, got, failure)
		}
	}
}

// The reboot of another is not explained by an earlier failure: who asked is told, and why.
func TestAnotherRebootIsNotToldAsRecoverys(t *testing.T) {
	w := failingWorld(t)
	w.failTimes(3)
	w.takeReboot()
	h := w.host(hostName)
	h.Spec.Reboot = &infrav1.RebootRequest{ID: "by-hand-1", Reason: "fans"}
	w.update(h)
	for _, c := range []struct {
		act  func()
		want string
	}{
		{func() {}, "host " + hostName + " reboots (somebody asked for it: fans)"},
		{func() { w.refuseReboot("the server is locked") }, "host " + hostName + " is to be rebooted (somebody asked for it: fans), which waits: the server is locked"},
		{w.takeReboot, "host " + hostName + " reboots (somebody asked for it: fans)"},
	} {
		c.act()
		w.settle("mac-1")
		if got := w.message("mac-1", infrav1.BootstrappedCondition); got != c.want {
			t.Errorf("Bootstrapped says %q, want %q", got, c.want)
		}
	}
}
