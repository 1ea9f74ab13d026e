package health

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A tool that hangs once may be busy. One that goes on hanging starts no guest, whether
// it is ended by the deadline or outlives it, and the Node must not take Pods for it.
func TestAToolThatHangsForLongIsBroken(t *testing.T) {
	for name, heeds := range map[string]bool{"heeds its deadline": true, "does not": false} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(noon())
			release := make(chan struct{})
			defer close(release)
			probe := func(ctx context.Context) (vm.Info, error) {
				if !heeds {
					<-release
				}
				<-ctx.Done()
				return vm.Info{}, context.Cause(ctx)
			}
			m := monitor(t, clock, Tool{Probe: probe}.Check(),
				Check{Type: "Other", Look: func(ctx context.Context) (Finding, error) { <-ctx.Done(); return Finding{}, ctx.Err() }})
			for _, step := range []struct {
				after  time.Duration
				status corev1.ConditionStatus
			}{
				{0, corev1.ConditionUnknown},
				{patience - time.Second, corev1.ConditionUnknown},
				{time.Second, corev1.ConditionFalse},
				{time.Hour, corev1.ConditionFalse},
			} {
				clock.Step(step.after)
				m.look(t.Context())
				f := m.Findings()[0]
				if f.Status != step.status || f.Blocks != (step.status == corev1.ConditionFalse) || f.Reason != ReasonCheckHangs || !strings.Contains(f.Message, "tool") {
					t.Errorf("at %s: %+v", clock.Now().Format(time.TimeOnly), f)
				}
				if other := m.Findings()[1]; other.Status != corev1.ConditionUnknown || other.Blocks {
					t.Errorf("what guests can do without: %+v", other)
				}
			}
		})
	}
}

// A check that comes back with its deadline was late, whoever is heard first.
func TestAnErrorOfTheDeadlineIsAHang(t *testing.T) {
	c := Tool{Probe: func(ctx context.Context) (vm.Info, error) { return vm.Info{}, vm.ErrUnusable }}.Check()
	ctx, cancel := context.WithCancel(t.Context())
	m := monitor(t, clocktesting.NewFakeClock(noon()), c)
	if f := m.ask(ctx, c); f.Reason != ReasonToolUnusable {
		t.Errorf("in time: %+v", f)
	}
	cancel()
	if f := m.ask(ctx, c); f.Reason != ReasonCheckHangs {
		t.Errorf("late: %+v", f)
	}
}

// awaitIdle lets the checks that were late come back.
func awaitIdle(t *testing.T, m *Monitor) {
	t.Helper()
	late := time.After(time.Minute)
	for busy := 1; busy > 0; {
		select {
		case <-late:
			t.Fatal("a check does not come back")
		default:
			runtime.Gosched()
		}
		m.mu.Lock()
		busy = len(m.busy)
		m.mu.Unlock()
	}
}

// It counts from the last time that all was well.
func TestAToolThatAnswersAgainIsTrusted(t *testing.T) {
	clock := clocktesting.NewFakeClock(noon())
	hangs := true
	m := monitor(t, clock, Tool{Probe: func(ctx context.Context) (vm.Info, error) {
		if hangs {
			<-ctx.Done()
			return vm.Info{}, ctx.Err()
		}
		return vm.Info{Name: "tart"}, nil
	}}.Check())
	for i, want := range []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionTrue, corev1.ConditionUnknown, corev1.ConditionUnknown} {
		if hangs, m.o.Deadline = i != 1, time.Millisecond; !hangs {
			m.o.Deadline = time.Minute
		}
		m.look(t.Context())
		awaitIdle(t, m)
		if f := m.Findings()[0]; f.Status != want || f.Blocks {
			t.Errorf("look %d: %+v, want %s", i, f, want)
		}
		clock.Step(patience * 2 / 3)
	}
}
