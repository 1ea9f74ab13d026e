package shim

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A command that asks for its guest's address waits for it; others run without.
func TestCommandsAreToldTheAddressOfTheirGuest(t *testing.T) {
	g := newFakeGuest()
	g.leaseless = 2
	a := serveAttempt(t, g)
	r := guestRun("main", "succeed")
	r.Command.Argv = append(r.Command.Argv, "--listen="+vm.GuestAddress+":80")
	r.Command.Env = []string{"A=1", "POD_IP=" + vm.GuestAddress}
	mustRun(t, a.dir, r)
	if end := mustEnd(t, a.dir, "main"); end.Outcome != Exited {
		t.Fatalf("it ended with %+v", end)
	}
	want := []vm.GuestCommand{{Argv: []string{"succeed", "--listen=192.168.64.7:80"}, Env: []string{"A=1", "POD_IP=192.168.64.7"}}}
	if d := cmp.Diff(want, g.commands()); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
}

func TestACommandWithoutAQuestionNeedsNoAddress(t *testing.T) {
	g := newFakeGuest()
	g.leaseless = 1
	a := serveAttempt(t, g)
	mustRun(t, a.dir, guestRun("main", "succeed"))
	mustEnd(t, a.dir, "main")
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leaseless != 1 {
		t.Error("the guest was asked for its address")
	}
}
