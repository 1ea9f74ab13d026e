package host

import (
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func TestWhatALiveMachineMakesOfAHostThatNobodyHas(t *testing.T) {
	const pool, id = "tuist-pool-", "11111111-2222-3333-4444-555555555555"
	means := func(machine, named string) infrav1.ScalewayAppleSiliconMachine {
		m := infrav1.ScalewayAppleSiliconMachine{}
		m.Name, m.Spec.HostRef = machine, &infrav1.HostReference{Name: named}
		return m
	}
	this := ObjectName("fr-par-1", id)
	for name, c := range map[string]struct {
		server, recorded string
		machine          infrav1.ScalewayAppleSiliconMachine
		wanted, doubtful bool
	}{
		"in the pool, as a list says of a new Host":  {pool + "1", "", means("a-6", this), false, true},
		"in the pool, and was another name before":   {pool + "1", "a-6", means("a-6", this), false, true},
		"in the pool, as it was":                     {pool + "1", pool + "1", means("a-6", this), false, false},
		"in the pool by its id":                      {pool + id, "", means("a-6", this), false, true},
		"in another pool by its id":                  {"gone-pool-" + id, "", means("a-6", this), true, false},
		"named after the Machine":                    {"a-6", "", means("a-6", this), true, false},
		"named after the Machine, as if of the pool": {pool + "1", "", means(pool+"1", this), true, false},
		"somebody's":                   {"somebody", "", means("a-6", this), true, false},
		"meant by nobody":              {pool + "1", "", means("a-6", "another"), false, false},
		"of a Machine without hostRef": {pool + "1", "", infrav1.ScalewayAppleSiliconMachine{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := New("fr-par-1", id, "")
			h.Status.Server.Name = c.server
			machines := []infrav1.ScalewayAppleSiliconMachine{c.machine}
			if got := Wanted(h, machines, pool); got != c.wanted {
				t.Errorf("wanted %t, want %t", got, c.wanted)
			}
			if got := PoolNameDoubtful(h, c.recorded, machines, pool); got != c.doubtful {
				t.Errorf("doubtful %t, want %t", got, c.doubtful)
			}
		})
	}
}
