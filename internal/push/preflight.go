package push

import (
	"context"
	"errors"
	"fmt"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
)

// preflight refuses a Mac that nothing secret should be sent to, or that would never
// come back by itself: before the password is spent, and before a step half does.
func (p push) preflight(ctx context.Context, facts Facts) error {
	unfit := func(reason, message string, args ...any) error {
		return &Failure{Step: StepProbe, Class: document.Human, Reason: reason, Err: fmt.Errorf(message, args...)}
	}
	switch {
	case facts.VirtualMachine:
		return unfit(infrav1.ReasonWrongHardware, "a virtual machine answers at %s, not a Mac: guests cannot run in it", p.Target.Address)
	case facts.FileVault:
		return unfit(infrav1.ReasonFileVault, "FileVault is on, or comes with the next login: after a power cut nobody comes in before a person types a password; run sudo fdesetup disable on the Mac, or wipe it")
	}
	err := p.recordHardware(ctx, infrav1.HostHardware{Serial: facts.Serial, PlatformUUID: facts.PlatformUUID})
	if other, is := errors.AsType[*host.OtherHardwareError](err); is {
		return unfit(infrav1.ReasonWrongHardware, "another Mac answers at %s than the one that host %s was: %s; ask the vendor, and where the hardware was exchanged accept it: set the host's spec.acceptSerial to the new serial number", p.Target.Address, p.Claim.Host, other)
	}
	return notRecorded(StepProbe, err)
}
