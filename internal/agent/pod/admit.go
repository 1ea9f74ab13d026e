package pod

import (
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/admission"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

// refusedPause is how long a Pod that is made anew holds its place on a Mac after it
// was refused, so that its controller makes two a Mac in this time and not hundreds.
const refusedPause = 30 * time.Second

// admitter decides whether this node takes one Pod.
type admitter struct {
	host   admission.Host
	memory *memoryShare
	pod    *object
	report *reporter
	clock  clock.Clock
	log    *slog.Logger
}

// admit returns why this node does not take a Pod that has not begun, for
// good; nil: the Pod is admitted, or its life ended while it waited.
func (a *admitter) admit(ctx context.Context) *state.Failure {
	for told := refusalShown(a.pod.current()); ; {
		p, changed := a.pod.observe()
		refused := a.host.Admit(ctx, p)
		if refused == nil {
			var err error
			if refused, err = a.memory.admit(ctx); refused == nil || err != nil {
				return nil
			}
		}
		if !admission.Waits(p, refused) {
			return a.refuse(ctx, *refused)
		}
		if refused.Message != told {
			a.reportRefusal(*refused)
			a.report.showWaiting(state.ReasonConfig, refused.Message)
			told = refused.Message
		}
		// An image may be changed while the Pod waits, and nothing else that is refused.
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// refusalShown is the message that the Pod waits with already, as an agent before
// this one refused it.
func refusalShown(p *corev1.Pod) string {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if c.State.Waiting != nil && c.State.Waiting.Reason == state.ReasonConfig {
			return c.State.Waiting.Message
		}
	}
	return ""
}

func (a *admitter) reportRefusal(f state.Failure) {
	a.log.Info("Pod refused", "reason", f.Reason, "message", f.Message)
	a.report.event(corev1.EventTypeWarning, f.Reason, f.Message)
}

// refuse is for Pods that fail; there is nothing to stop. A Pod that is made anew at
// once, without end, waits with the same words before.
func (a *admitter) refuse(ctx context.Context, f state.Failure) *state.Failure {
	a.reportRefusal(f)
	if f.Reason == state.ReasonUnsupported && admission.RecreatedAtOnce(a.pod.current()) {
		a.report.showWaiting(f.Reason, f.Message)
		if wait.For(ctx, a.clock, refusedPause) != nil {
			return nil
		}
	}
	return &f
}
