package probe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/actiontest"
	"github.com/macfleet/macfleet/internal/agent/pod/probe"
)

// watched is a container that is probed, and what came of it, with the second of each.
type watched struct {
	mu    sync.Mutex
	begin time.Time
	told  []string
	// answers of commands, by their first argument: an exit code, or else that of the
	// second.
	answers map[string]func(context.Context) (int, error)
	guest   *actiontest.Guest
}

func newWatched() *watched {
	w := &watched{begin: time.Now(), answers: map[string]func(context.Context) (int, error){}}
	w.guest = &actiontest.Guest{Command: func(ctx context.Context, argv []string) (string, int, error) {
		w.tell("ran %s", argv[0])
		w.mu.Lock()
		answer := w.answers[argv[0]]
		w.mu.Unlock()
		code, err := answer(ctx)
		return "said " + argv[0], code, err
	}}
	return w
}

func (w *watched) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf("%d %s", int(time.Since(w.begin).Seconds()), fmt.Sprintf(format, args...)))
}

func (w *watched) exits(argv string, code int) {
	w.does(argv, func(context.Context) (int, error) { return code, nil })
}

func (w *watched) does(argv string, answer func(context.Context) (int, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[argv] = answer
}

// all is what happened, of all that contains one of the words.
func (w *watched) all(words ...string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.told), func(s string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(s, word) })
	})
}

func (w *watched) options(c corev1.Container) probe.Options {
	return probe.Options{
		Container: c, Begun: w.begin, Status: probe.Initial(c), Guest: w.guest, Clock: clock.RealClock{},
		Changed: func(s probe.Status) { w.tell("started=%v ready=%v", s.Started, s.Ready) },
		Failed:  func(k probe.Kind) { w.tell("failed %s", k) },
		Event:   func(kind, reason, message string) { w.tell("%s %s: %s", kind, reason, message) },
	}
}

func runs(name string, delay, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{name}}},
		InitialDelaySeconds: delay, PeriodSeconds: period, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: failures,
	}
}

// story lets time pass over a container, in a bubble of time of its own.
func story(t *testing.T, tell func(t *testing.T, w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { tell(t, newWatched()) })
}

// during probes a container for a while.
func (w *watched) during(t *testing.T, o probe.Options, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	probe.Run(ctx, o)
}

func expect(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestReadinessFollowsTheProbe(t *testing.T) {
	story(t, func(t *testing.T, w *watched) {
		w.exits("ready", 1)
		time.AfterFunc(12*time.Second, func() { w.exits("ready", 0) })
		time.AfterFunc(20*time.Second, func() { w.exits("ready", 1) })
		w.during(t, w.options(corev1.Container{ReadinessProbe: runs("ready", 5, 2, 2)}), 26*time.Second)
		expect(t, w.all("ready"), []string{
			"5 ran ready", "5 Warning Unhealthy: Readiness probe failed: said ready",
			"7 ran ready", "7 Warning Unhealthy: Readiness probe failed: said ready",
			"9 ran ready", "9 Warning Unhealthy: Readiness probe failed: said ready",
			"11 ran ready", "11 Warning Unhealthy: Readiness probe failed: said ready",
			"13 ran ready", "13 started=true ready=true",
			"15 ran ready", "17 ran ready", "19 ran ready",
			"21 ran ready", "21 Warning Unhealthy: Readiness probe failed: said ready",
			"23 ran ready", "23 Warning Unhealthy: Readiness probe failed: said ready", "23 started=true ready=false",
			"25 ran ready", "25 Warning Unhealthy: Readiness probe failed: said ready",
		})
	})
}

// TestLivenessFailsOnce, and asks no more: the container is about to end.
func TestLivenessFailsOnce(t *testing.T) {
	story(t, func(t *testing.T, w *watched) {
		w.exits("alive", 0)
		time.AfterFunc(24*time.Second, func() { w.exits("alive", 1) })
		w.during(t, w.options(corev1.Container{LivenessProbe: runs("alive", 15, 10, 3)}), 5*time.Minute)
		expect(t, w.all("ran", "failed", "ready="), []string{
			"15 ran alive", "25 ran alive", "25 Warning Unhealthy: Liveness probe failed: said alive",
			"35 ran alive", "35 Warning Unhealthy: Liveness probe failed: said alive",
			"45 ran alive", "45 Warning Unhealthy: Liveness probe failed: said alive", "45 failed Liveness",
		})
	})
}

// TestStartupGatesTheOthers, which begin as soon as it has succeeded.
func TestStartupGatesTheOthers(t *testing.T) {
	story(t, func(t *testing.T, w *watched) {
		w.exits("up", 1)
		w.exits("alive", 1)
		w.exits("ready", 0)
		time.AfterFunc(21*time.Second, func() { w.exits("up", 0) })
		time.AfterFunc(22*time.Second, func() { w.exits("alive", 0) })
		w.during(t, w.options(corev1.Container{
			StartupProbe: runs("up", 0, 10, 60), LivenessProbe: runs("alive", 40, 10, 1), ReadinessProbe: runs("ready", 1, 10, 1),
		}), 45*time.Second)
		expect(t, w.all("ran up", "ran r", "ready=", "failed S", "failed L"), []string{
			"0 ran up", "10 ran up", "20 ran up", "30 ran up", "30 started=true ready=false",
			"30 ran ready", "30 started=true ready=true", "40 ran ready",
		})
		expect(t, w.all("alive"), []string{"40 ran alive"})
	})
}

func TestAStartThatNeverSucceeds(t *testing.T) {
	story(t, func(t *testing.T, w *watched) {
		w.exits("up", 1)
		w.during(t, w.options(corev1.Container{StartupProbe: runs("up", 3, 5, 2), ReadinessProbe: runs("ready", 0, 1, 1)}), time.Minute)
		expect(t, w.all("ran", "ready=", "failed Startup"), []string{"3 ran up", "8 ran up", "8 failed Startup"})
	})
}

// TestAHangingProbeFailsAtItsTimeout, holds up no other, and the next comes at once where
// the period is over.
func TestAHangingProbeFailsAtItsTimeout(t *testing.T) {
	story(t, func(t *testing.T, w *watched) {
		w.does("hang", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		w.exits("ready", 0)
		hangs := runs("hang", 0, 2, 3)
		hangs.TimeoutSeconds = 5
		w.during(t, w.options(corev1.Container{LivenessProbe: hangs, ReadinessProbe: runs("ready", 1, 60, 1)}), time.Minute)
		expect(t, w.all("hang", "failed L", "ready="), []string{
			"0 ran hang", "1 started=true ready=true",
			`5 Warning Unhealthy: Liveness probe failed: command timed out: "hang" timed out after 5s`,
			"5 ran hang", `10 Warning Unhealthy: Liveness probe failed: command timed out: "hang" timed out after 5s`,
			"10 ran hang", `15 Warning Unhealthy: Liveness probe failed: command timed out: "hang" timed out after 5s`, "15 failed Liveness",
		})
	})
}

// TestAProbeThatCannotBeMadeSaysNothingOfTheContainer, and is tried three times at once.
func TestAProbeThatCannotBeMadeSaysNothingOfTheContainer(t *testing.T) {
	story(t, func(t *testing.T, w *watched) {
		w.does("alive", func(context.Context) (int, error) { return 0, errors.New("no guest agent answers") })
		w.during(t, w.options(corev1.Container{LivenessProbe: runs("alive", 0, 10, 1)}), 15*time.Second)
		expect(t, w.all("alive", "errored", "failed"), []string{
			"0 ran alive", "0 ran alive", "0 ran alive", "0 Warning Unhealthy: Liveness probe errored and resulted in unknown state: no guest agent answers",
			"10 ran alive", "10 ran alive", "10 ran alive", "10 Warning Unhealthy: Liveness probe errored and resulted in unknown state: no guest agent answers",
		})
	})
}

// TestAnotherAgentGoesOn: what an earlier one found holds until the probes say otherwise.
func TestAnotherAgentGoesOn(t *testing.T) {
	story(t, func(t *testing.T, w *watched) {
		w.exits("ready", 1)
		w.exits("alive", 0)
		o := w.options(corev1.Container{StartupProbe: runs("up", 0, 1, 1), ReadinessProbe: runs("ready", 30, 10, 3), LivenessProbe: runs("alive", 30, 100, 1)})
		o.Begun = o.Begun.Add(-time.Hour)
		o.Status = probe.Status{Started: true, Ready: true}
		w.during(t, o, 29*time.Second)
		expect(t, w.all("ran r", "ready="), []string{"0 ran ready", "10 ran ready", "20 ran ready", "20 started=true ready=false"})
		expect(t, w.all("alive", "ran up"), []string{"0 ran alive"})
	})
}

// TestADeletionLeavesReadinessAlone: a Pod that is being deleted is not restarted, and may
// become unready.
func TestADeletionLeavesReadinessAlone(t *testing.T) {
	story(t, func(t *testing.T, w *watched) {
		w.exits("ready", 0)
		w.exits("alive", 0)
		time.AfterFunc(9*time.Second, func() { w.exits("ready", 1); w.exits("alive", 1) })
		o := w.options(corev1.Container{ReadinessProbe: runs("ready", 1, 5, 1), LivenessProbe: runs("alive", 2, 1, 1)})
		deleted := make(chan struct{})
		o.Terminating = deleted
		time.AfterFunc(8500*time.Millisecond, func() { close(deleted) })
		w.during(t, o, 20*time.Second)
		expect(t, w.all("ready=", "failed L", "Liveness"), []string{"1 started=true ready=true", "11 started=true ready=false"})
	})
}

// TestAStopIsNoFailure: what a probe meets of a stop is no fault of the container.
func TestAStopIsNoFailure(t *testing.T) {
	gone := func(context.Context) (int, error) { return 0, errors.New("the VM has ended") }
	for name, c := range map[string]struct {
		spec        func(*corev1.Container)
		terminating bool
		running     bool
		says        bool
	}{
		"it runs": {func(c *corev1.Container) { c.ReadinessProbe = runs("probe", 0, 1, 1) }, false, true, true},
		// As with a kubelet: it is told to end, and says itself that it is not ready.
		"it is told to end":      {func(c *corev1.Container) { c.ReadinessProbe = runs("probe", 0, 1, 1) }, true, true, true},
		"it has ended":           {func(c *corev1.Container) { c.ReadinessProbe = runs("probe", 0, 1, 1) }, true, false, false},
		"it has ended by itself": {func(c *corev1.Container) { c.LivenessProbe = runs("probe", 0, 1, 1) }, false, false, false},
	} {
		story(t, func(t *testing.T, w *watched) {
			w.exits("probe", 1)
			container := corev1.Container{}
			c.spec(&container)
			o := w.options(container)
			o.Running = func() bool { return c.running }
			if c.terminating {
				deleted := make(chan struct{})
				close(deleted)
				o.Terminating = deleted
			}
			w.during(t, o, 5*time.Second)
			if got := len(w.all("Unhealthy", "failed")) > 0; got != c.says {
				t.Errorf("%s: told %v", name, w.all("Unhealthy", "failed"))
			}
		})
	}
	story(t, func(t *testing.T, w *watched) {
		w.does("probe", gone)
		o := w.options(corev1.Container{ReadinessProbe: runs("probe", 0, 1, 1)})
		deleted := make(chan struct{})
		close(deleted)
		o.Terminating = deleted
		w.during(t, o, 5*time.Second)
		expect(t, w.all("Unhealthy"), nil)
	})
}

// TestTheEndOfTheContainerIsNoFailure: a probe that it cuts off tells nothing.
func TestTheEndOfTheContainerIsNoFailure(t *testing.T) {
	story(t, func(t *testing.T, w *watched) {
		w.does("alive", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		long := runs("alive", 0, 1, 1)
		long.TimeoutSeconds = 60
		w.during(t, w.options(corev1.Container{LivenessProbe: long, ReadinessProbe: long}), 10*time.Second)
		expect(t, w.all("failed", "Unhealthy", "ready="), nil)
	})
}
