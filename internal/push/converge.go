package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
)

const (
	// rebootDeadline: a Mac that takes longer than this to come back does not come
	// back by itself; two minutes are usual.
	rebootDeadline = 10 * time.Minute
	// rebootPoll is how often a Mac that reboots is dialled.
	rebootPoll = 5 * time.Second
)

// converge runs the agent, and once more after the reboot that the first run asks
// for.
func (p push) converge(ctx context.Context, mac Mac, facts Facts, desired document.Desired) error {
	report, err := mac.Converge(ctx, desired, p.Signer)
	p.observe(report)
	if err != nil {
		return rolledBack(report, err)
	}
	if !report.Rebooting {
		return nil
	}
	p.say(StepReboot)
	again, err := p.awaitBoot(ctx, mac.HostKey(), cmp.Or(report.BootSession, facts.BootSession))
	if err != nil {
		return err
	}
	defer again.Close() //nolint:errcheck // the work is done or has failed already
	p.say(StepConverge)
	report, err = again.Converge(ctx, desired, p.Signer)
	p.observe(report)
	if err == nil && report.Rebooting {
		err = &Failure{Step: StepReboot, Class: document.Reboot, Err: errors.New("the Mac wants to reboot once more after its reboot")}
	}
	return rolledBack(report, err)
}

// awaitBoot dials until another boot than that of the given session answers. That
// somebody answers proves nothing: it may be the old boot on its way down.
func (p push) awaitBoot(ctx context.Context, key infrav1.HostKey, before string) (Mac, error) {
	target := p.Target
	target.Pin, target.FirstUse = ptr.To(key), nil
	deadline := p.Clock.Now().Add(rebootDeadline)
	var last error
	for p.Clock.Now().Before(deadline) {
		if err := p.Pause(ctx, rebootPoll); err != nil {
			return nil, err
		}
		mac, err := p.Macs.Dial(ctx, target)
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
	return nil, &Failure{Step: StepReboot, Class: document.Reboot, Err: fmt.Errorf("the Mac was not back %s after it was rebooted: %w", rebootDeadline, last)}
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
	failure := *AsFailure(StepConverge, err)
	failure.RolledBack = true
	failure.Err = fmt.Errorf("%w; the Mac went back from build %.12s to the one before", failure.Err, report.RolledBack)
	return &failure
}

// observe adds the steps that ran on the Mac itself, and tells of them.
func (p push) observe(report document.Report) {
	if p.Told != nil {
		p.Told(report)
	}
	for _, step := range report.Steps {
		if step.Outcome == document.Changed || step.Outcome == document.Unchanged {
			p.Observe("mac/"+step.Name, time.Duration(step.Millis)*time.Millisecond)
		}
	}
}
