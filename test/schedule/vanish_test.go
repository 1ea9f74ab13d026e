package schedule

import (
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// TestAReleaseEndsThoughManyServersVanish deletes three of four servers in the
// console, two of them in the midst of a release. So many at once are believed late,
// but they are, and what waits for it ends.
func TestAReleaseEndsThoughManyServersVanish(t *testing.T) {
	s := newSim(settings{seed: 1})
	defer s.close()
	c := s.members[0]
	for range 2 {
		c.newMachine(infrav1.MachineClass{})
	}
	s.rounds()
	s.wait(24 * time.Hour) // the floor of each server is over
	for _, m := range c.store.all("Machine") {
		c.deleteMachine(m)
	}
	for range 3 { // each leaves its Mac before it is released
		s.round()
		s.wait(time.Second)
	}
	doomed, spared := []string{}, ""
	for _, h := range c.hosts() {
		if h.Spec.Release != nil {
			doomed = append(doomed, h.Spec.ServerID)
		} else {
			spared = h.Spec.ServerID
		}
	}
	if len(doomed) != 2 {
		t.Fatalf("%d hosts are released, want 2\n%s", len(doomed), tail(s.told(), 40))
	}
	for _, id := range append(doomed, spared) {
		s.console("DELETE", id, "")
	}
	s.settle()
	s.checkRest()
	if hosts := len(c.hosts()); len(s.broken) > 0 || hosts != 1 {
		t.Errorf("%d Hosts are left, want 1; %s\n%s", hosts, s.broken, tail(s.told(), 40))
	}
}
