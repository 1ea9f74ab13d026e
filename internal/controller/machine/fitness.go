package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
)

// fit refuses a Mac that nothing secret should be sent to, or that would never
// come back by itself: before the password is spent, and before a step half does.
func (p push) fit(ctx context.Context, facts Facts) error {
	unfit := func(reason, message string, args ...any) error {
		return &Failure{Step: stepProbe, Class: document.Human, Reason: reason, Err: fmt.Errorf(message, args...)}
	}
	switch {
	case facts.VirtualMachine:
		return unfit(infrav1.ReasonWrongHardware, "a virtual machine answers at %s, not a Mac: guests cannot run in it", p.target.Address)
	case facts.FileVault:
		return unfit(infrav1.ReasonFileVault, "FileVault is on: after a power cut nobody comes in before a person types a password; run sudo fdesetup disable on the Mac, or wipe it")
	}
	err := p.ledger.hardware(ctx, infrav1.HostHardware{Serial: facts.Serial, PlatformUUID: facts.PlatformUUID})
	if other, is := errors.AsType[*host.OtherHardwareError](err); is {
		return unfit(infrav1.ReasonWrongHardware, "another Mac answers at %s than the one that host %s was: %s; ask the vendor, and where the hardware was exchanged accept it: set the host's spec.acceptSerial to the new serial number", p.target.Address, p.ledger.host, other)
	}
	return err
}

// hardware records which Mac answers, on the host and in its mirror, or refuses
// another than the known one.
func (l ledger) hardware(ctx context.Context, seen infrav1.HostHardware) error {
	var refused error
	h, err := l.r.amendHost(ctx, l.host, l.claim, func(h *host.Host) bool {
		var now *infrav1.HostHardware
		if now, refused = host.Recognize(h, seen); refused != nil {
			return false
		}
		known := h.Spec.Record.Hardware
		if now == nil || known != nil && *known == *now && h.Spec.AcceptSerial == "" {
			return false
		}
		h.Spec.Record.Hardware, h.Spec.AcceptSerial = now, awaited(h.Spec.AcceptSerial, now.Serial)
		return true
	})
	if err = cmp.Or(err, refused); err != nil || h.Spec.Record.Hardware == nil {
		return err
	}
	return l.r.patchStaged(ctx, l.machine, map[string]*string{host.KeyHardware: ptr.To(formatHardware(*h.Spec.Record.Hardware))})
}

// awaited is what remains of spec.acceptSerial once a Mac has answered.
func awaited(accept, serial string) string {
	if accept == serial {
		return ""
	}
	return accept
}

func formatHardware(h infrav1.HostHardware) string { return h.Serial + " " + h.PlatformUUID }

func parseHardware(text string) *infrav1.HostHardware {
	serial, platformUUID, ok := strings.Cut(text, " ")
	if !ok || serial == "" && platformUUID == "" {
		return nil
	}
	return &infrav1.HostHardware{Serial: serial, PlatformUUID: platformUUID}
}

const (
	// rebootDeadline: a Mac that takes longer than this to come back does not come
	// back by itself; two minutes are usual.
	rebootDeadline = 10 * time.Minute
	// rebootPoll is how often a Mac that reboots is dialled.
	rebootPoll = 5 * time.Second
)

// converge runs the agent, and once more after the reboot that the first run asks
// for.
func (p push) converge(ctx context.Context, mac Mac, facts Facts, desired document.Desired, say func(string)) error {
	report, err := mac.Converge(ctx, desired, p.signer)
	p.r.metrics.report(report)
	if err != nil {
		return rolledBack(report, err)
	}
	if !report.Rebooting {
		return nil
	}
	say(stepReboot)
	before := report.BootSession
	if before == "" {
		before = facts.BootSession
	}
	again, err := p.awaitBoot(ctx, mac.HostKey(), before)
	if err != nil {
		return err
	}
	defer again.Close() //nolint:errcheck // the work is done or has failed already
	say(stepConverge)
	report, err = again.Converge(ctx, desired, p.signer)
	p.r.metrics.report(report)
	if err == nil && report.Rebooting {
		err = &Failure{Step: stepReboot, Class: document.Reboot, Err: errors.New("the Mac wants to reboot once more after its reboot")}
	}
	return rolledBack(report, err)
}

// awaitBoot dials until another boot than that of the given session answers. That
// somebody answers proves nothing: it may be the old boot on its way down.
func (p push) awaitBoot(ctx context.Context, key infrav1.HostKey, before string) (Mac, error) {
	target := p.target
	target.Pin, target.FirstUse = ptr.To(key), nil
	deadline := p.r.Clock.Now().Add(rebootDeadline)
	var last error
	for p.r.Clock.Now().Before(deadline) {
		if err := p.r.Pause(ctx, rebootPoll); err != nil {
			return nil, err
		}
		mac, err := p.r.Macs.Dial(ctx, target)
		if err != nil {
			if last = err; mismatch(err) {
				return nil, err
			}
			continue
		}
		facts, err := mac.Probe(ctx)
		if err == nil && facts.BootSession != before {
			return mac, nil
		}
		last = errors.Join(err, mac.Close())
	}
	if last == nil {
		last = errors.New("it still runs its old boot")
	}
	return nil, &Failure{Step: stepReboot, Class: document.Reboot, Err: fmt.Errorf("the Mac was not back %s after it was rebooted: %w", rebootDeadline, last)}
}

func mismatch(err error) bool {
	failure, is := errors.AsType[*Failure](err)
	return is && failure.Reason == infrav1.ReasonHostKeyMismatch
}

// rolledBack adds to a failure that the Mac runs its former build again.
func rolledBack(report document.Report, err error) error {
	if err == nil || report.RolledBack == "" {
		return err
	}
	failure := *asFailure(stepConverge, err)
	failure.Err = fmt.Errorf("%w; the Mac went back from build %.12s to the one before", failure.Err, report.RolledBack)
	return &failure
}

// pause waits in real time.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
