package agent

import (
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/tart"
)

// What tart prints of a closed session is understood as one.
func TestRefusedStartsComeToTheHostsCondition(t *testing.T) {
	now := time.Now()
	keychain := &health.Keychain{Now: func() time.Time { now = now.Add(time.Minute); return now }}
	driver := watchedEnds{tart.New(tart.Options{}), keychain}
	no := vm.RunEnd{Code: 1, Tail: "Error: VZErrorDomain Code=-9 \"Failed to create new HostKey.\" (OSStatus -25308)\n"}
	driver.Classify(no)
	driver.Classify(no)
	if keychain.Refusal() == "" {
		t.Error("two starts were refused, and the session counts as open")
	}
	driver.Classify(vm.RunEnd{Tail: "Guest has stopped the virtual machine\n"})
	if why := keychain.Refusal(); why != "" {
		t.Errorf("a guest ran, and the session counts as closed: %s", why)
	}
}
