package pod

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/admission"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/slot"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// lostSlotTimeout is how long a Pod waits for a slot on a Mac that has lost one, whose
// reboot another guest may hold up for hours. A reboot that nothing holds up is over
// before.
const lostSlotTimeout = 10 * time.Minute

// licenseSlot is one Pod's place among the guests that Apple's licence allows.
type licenseSlot struct {
	slots      *slot.Gate
	driver     vm.Driver
	pod        *object
	background *sync.WaitGroup
	endLife    context.CancelCauseFunc
	clock      clock.WithTicker
	log        *slog.Logger
}

func (s *licenseSlot) name() string { return string(s.pod.uid) }

func (s *licenseSlot) release() { s.slots.Release(s.name()) }

// acquire waits for a slot. On a Mac that has lost one, a Pod that its controller makes
// anew elsewhere is given back after lostSlotTimeout.
func (s *licenseSlot) acquire(ctx context.Context) error {
	waiting, got := context.WithCancel(ctx)
	defer got()
	if admission.RecreatedElsewhere(s.pod.current()) {
		s.background.Go(func() { s.giveBack(waiting) })
	}
	return s.slots.Acquire(ctx, s.name())
}

func (s *licenseSlot) giveBack(waiting context.Context) {
	for wait.For(waiting, s.clock, lostSlotTimeout) == nil {
		lost := s.slots.Leaked()
		if lost == 0 {
			continue
		}
		s.endLife(&podFailedError{
			Failure: state.Failure{Reason: state.ReasonLimited, Message: fmt.Sprintf(
				"macOS on this Mac has lost %d of its %d places for guests until it is rebooted, and there was none for this Pod in %s: it is given back, to be made anew on another Mac",
				lost, slot.Licence, lostSlotTimeout)},
			grace: state.OrphanGrace, disrupted: true,
		})
		return
	}
}

// refused has the start that the licence refused judged, while what runs is known.
func (s *licenseSlot) refused(ctx context.Context) {
	machines, err := s.driver.Machines(ctx)
	if err != nil {
		s.log.Warn("what runs besides is not known, so that lost VM slots are not seen", "err", err)
		return
	}
	s.slots.Limited(machines)
}

// limitMessage says what a Pod whose start the licence refused waits for.
func (s *licenseSlot) limitMessage() string {
	lost := s.slots.Leaked()
	if lost == 0 {
		return fmt.Sprintf("macOS runs %d macOS guests at once at most and refused another one: the Pod waits until one of them ends", slot.Licence)
	}
	return fmt.Sprintf("macOS runs %d macOS guests at once at most and has lost %d of these places, which it counts for guests that are gone: "+
		"a reboot gives them back, and is made once no Pod and no VM of others runs on the Mac; its Machine's condition LicenseSlotsHealthy says what else holds it back", slot.Licence, lost)
}
