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

// The reboot of another is not explained by an earlier failure.
func TestAnotherRebootIsNotToldAsRecoverys(t *testing.T) {
	w := failingWorld(t)
	w.failTimes(3)
	w.takeReboot()
	h := w.host(hostName)
	h.Status.LastReboot.ID = "a-person"
	w.updateStatus(h)
	w.settle("mac-1")
	if got, want := w.message("mac-1", infrav1.BootstrappedCondition), "host "+hostName+" reboots"; got != want {
		t.Errorf("Bootstrapped says %q, want %q", got, want)
	}
}
