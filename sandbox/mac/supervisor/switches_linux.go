package supervisor

import (
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// turn sets the switches from now on.
func (p *pid1) turn(s wire.Switches) error {
	p.mu.Lock()
	p.quirks = s.Quirks
	p.mu.Unlock()
	p.account.Tune(s.LockSteps)
	p.launchd.Tune(s)
	p.amfi.Recycle(s.RecycledVnodes)
	return p.door.turn(s.Door)
}

// inject carries out the part of an order that makes something go wrong.
func (p *pid1) inject(o wire.Order) error {
	if o.JobFault != nil {
		p.launchd.Arm(*o.JobFault)
	}
	if o.FullDisk != nil {
		if err := (volume{p}).fill(*o.FullDisk); err != nil {
			return err
		}
	}
	if o.Switches != nil {
		return p.turn(*o.Switches)
	}
	return nil
}
