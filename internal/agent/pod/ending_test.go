package pod

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/internal/agent/pod/action"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/shim"
)

// A real second is 500 s here. longGrace, in seconds, is not used up by a busy machine; longButNoGrace
// is what such a one may take for what takes no time, where the mistake would take all of it.
const (
	longGrace      = 36000
	longButNoGrace = longGrace * time.Second / 2
)

// withLongGrace leaves commands the time to end for a signal, whatever holds them up.
func withLongGrace(p *corev1.Pod) *corev1.Pod {
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(longGrace))
	return p
}

// order is where words stand in the host's history, -1 for those that do not.
func (w *world) order(words ...string) []int {
	history := w.host.history()
	var at []int
	for _, word := range words {
		at = append(at, slices.Index(history, word))
	}
	return at
}

// deleteWithin deletes with a grace of that many seconds.
func (w *world) deleteWithin(seconds int64) {
	w.t.Helper()
	w.edit("a", func(p *corev1.Pod) {
		end := metav1.NewTime(w.clock.Now().Add(time.Duration(seconds) * time.Second))
		if p.DeletionTimestamp != nil {
			end = metav1.NewTime(p.DeletionTimestamp.Add(time.Duration(seconds-*p.DeletionGracePeriodSeconds) * time.Second))
		}
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &end, &seconds
	})
}

func (w *world) awaitSignal() {
	w.t.Helper()
	w.await("the command is told to end", func() bool { return w.host.count("signal tk-uid-a-0 main") > 0 })
}

// awaitSignalOnRecord waits until the next agent would know of the signal.
func (w *world) awaitSignalOnRecord() {
	w.t.Helper()
	w.await("that is written down", func() bool {
		r, err := w.supervisor().checkpoints.Load("uid-a")
		return err == nil && r != nil && r.Ending != nil && r.Ending.Signaled
	})
}

// awaitEndingOnRecord waits until the next agent would know since when its Pod ends.
func (w *world) awaitEndingOnRecord() {
	w.t.Helper()
	w.await("that is written down", func() bool {
		r, err := w.supervisor().checkpoints.Load("uid-a")
		return err == nil && r != nil && r.Ending != nil
	})
}

// shownEnd is the last end of main that was shown.
func (w *world) shownEnd() *corev1.ContainerStateTerminated {
	w.phases.mu.Lock()
	defer w.phases.mu.Unlock()
	return w.phases.end
}

func TestACommandIsToldToEndBeforeItsGuest(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.deleteWithin(longGrace)
	w.awaitGone("a")
	at := w.order("signal tk-uid-a-0 main terminated", "stop tk-uid-a-0")
	if at[0] < 0 || at[1] < at[0] {
		t.Errorf("history %v", w.host.history())
	}
	if e := w.shownEnd(); e == nil || e.ExitCode != 143 {
		t.Errorf("end %+v", e)
	}
}

// The exit code is the command's own, however long it takes within the grace.
func TestTheExitWithinTheGraceIsTheCommands(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.host.guests.stubborn = true
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true)
	w.deleteWithin(longGrace)
	w.awaitSignal()
	w.clock.Step(3000 * time.Second)
	if n := w.host.count("stop"); n != 0 {
		t.Fatalf("the guest went down within the grace: %v", w.host.history())
	}
	w.host.exit("main", exited(5))
	w.frozen.Store(false)
	w.awaitGone("a")
	if e := w.shownEnd(); e == nil || e.ExitCode != 5 {
		t.Errorf("end %+v", e)
	}
}

func TestAGuestGoesDownWhenTheGraceIsOver(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.host.guests.stubborn = true
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true)
	w.deleteWithin(60)
	w.awaitSignal()
	w.frozen.Store(false)
	w.awaitGone("a")
	took := w.host.between("signal tk-uid-a-0 main terminated", "stop tk-uid-a-0")
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	if took < 50*time.Second || took > 5*time.Hour || w.host.graces[0] > 10*time.Second {
		t.Errorf("it took %s, and the guest had %s", took, w.host.graces)
	}
}

// A second deletion may come with less time, down to none.
func TestAShorterGraceCountsAtOnce(t *testing.T) {
	for _, second := range []int64{1, 0} {
		w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
		w.host.guests.stubborn = true
		w.startAgent()
		w.awaitRunning("a")
		w.frozen.Store(true)
		w.deleteWithin(longGrace)
		w.awaitSignal()
		w.frozen.Store(false)
		if second == 0 {
			w.forceDelete("a")
		} else {
			w.deleteWithin(second)
		}
		begin := w.clock.Now()
		w.await("the guest is gone", func() bool { return len(w.host.names()) == 0 })
		if took := w.clock.Since(begin); took > longButNoGrace {
			t.Errorf("grace %d: it took %s", second, took)
		}
	}
}

// The next agent goes on counting, and does not tell the command again.
func TestARestartOfTheAgentDoesNotRenewTheGrace(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.host.guests.stubborn = true
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true)
	begin := w.clock.Now()
	w.deleteWithin(longGrace)
	w.awaitSignal()
	w.awaitSignalOnRecord()
	w.clock.Step((longGrace - 200) * time.Second)
	w.stopAgent()
	w.startAgent()
	w.frozen.Store(false)
	w.awaitGone("a")
	if took := w.clock.Since(begin); took < (longGrace-20)*time.Second || took > longGrace*time.Second+longButNoGrace {
		t.Errorf("it took %s", took)
	}
	if w.host.guests.signals != 1 {
		t.Errorf("told %d times", w.host.guests.signals)
	}
}

// A deadline has no deletionTimestamp: its grace counts from the record.
func TestARestartOfTheAgentDoesNotRenewTheGraceOfADeadline(t *testing.T) {
	p, deadline, grace := podtest.Job(corev1.RestartPolicyNever), int64(late), int64(longGrace)
	p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = &deadline, &grace
	w := newWorld(t, p)
	w.host.guests.stubborn = true
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true)
	w.overdue()
	w.awaitSignal()
	begin := w.clock.Now()
	w.awaitSignalOnRecord()
	w.clock.Step((longGrace - 200) * time.Second)
	w.stopAgent()
	w.startAgent()
	w.frozen.Store(false)
	p = w.awaitPhase(corev1.PodFailed)
	if took := w.clock.Since(begin); took > longGrace*time.Second+longButNoGrace || p.Status.Reason != reasonDeadline {
		t.Errorf("it took %s, reason %s", took, p.Status.Reason)
	}
}

// An agent that restarts in the kill of a container does not know of it: what comes later
// has its hook, its signal and its grace.
func TestAKillThatTheAgentForgotTakesNothingFromADeletion(t *testing.T) {
	p, grace := probed(corev1.RestartPolicyAlways, func(c *corev1.Container) { c.LivenessProbe = probes("check", 1, 1) }), int64(36000)
	p.Spec.TerminationGracePeriodSeconds = &grace
	w := newWorld(t, p)
	w.host.guests.stubborn = true
	w.host.execs.exits("check", 1)
	w.startAgent()
	w.awaitSignal()
	w.frozen.Store(true)
	w.awaitSignalOnRecord()
	w.stopAgent()
	w.host.execs.exits("check", 0)
	w.startAgent()
	w.frozen.Store(false)
	w.awaitExec("check") // the next agent has the container
	w.deleteWithin(longGrace)
	w.await("the command is told again", func() bool { return w.host.count("signal tk-uid-a-0 main") == 2 })
	w.host.exit("main", exited(5))
	w.awaitGone("a")
	if e := w.shownEnd(); e == nil || e.ExitCode != 5 {
		t.Errorf("end %+v", e)
	}
}

func TestAGuestThatBootsGetsNoGrace(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.host.guests.boots = true
	w.startAgent()
	w.await("the VM runs", func() bool { return w.events.count("a", "Started") == 1 })
	begin := w.clock.Now()
	w.deleteWithin(longGrace)
	w.awaitGone("a")
	if took := w.clock.Since(begin); took > longButNoGrace || w.host.guests.signals != 0 {
		t.Errorf("it took %s, %d signals", took, w.host.guests.signals)
	}
}

// A shim of an older build cannot tell a command anything: its guest does.
func TestWhereNoSignalIsPossibleTheGuestGoesDown(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.host.guests.signalErrs = []error{&shim.RefusedError{Code: shim.RefusedInvalid, Message: "older"}}
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true) // what the guest gets is all of the grace
	w.deleteWithin(300)
	w.await("the guest is asked to shut down", func() bool { return w.host.stops() == 1 })
	w.frozen.Store(false)
	w.awaitGone("a")
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	if len(w.host.graces) == 0 || w.host.graces[0] < 250*time.Second {
		t.Errorf("the guest had %s", w.host.graces)
	}
}

func TestThePreStopHookComesFirst(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyNever)
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"say", "bye"}}}}
	w := newWorld(t, p)
	w.host.guests.codes[state.PreStopID] = 3
	w.startAgent()
	w.awaitRunning("a")
	w.deleteWithin(longGrace)
	w.awaitGone("a")
	at := w.order("exec tk-uid-a-0 prestop", "signal tk-uid-a-0 main terminated")
	if at[0] < 0 || at[1] < at[0] {
		t.Errorf("history %v", w.host.history())
	}
	if w.events.count("a", "FailedPreStopHook") != 1 {
		t.Errorf("events %v", w.events.all())
	}
}

func TestAPreStopHookThatCannotBeRunIsNamed(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyNever)
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"say", "bye"}}}}
	w := newWorld(t, p)
	w.host.guests.missing = map[string]bool{state.PreStopID: true}
	w.startAgent()
	w.awaitRunning("a")
	w.deleteWithin(longGrace)
	w.awaitGone("a")
	if !w.told(`a FailedPreStopHook PreStopHook failed: "say": no such file`) {
		t.Errorf("events %v", w.events.all())
	}
}

// What a hook was given may be gone once it has begun: another agent awaits it all the same.
func TestAPreStopHookThatHasBegunNeedsNoEnvironment(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyNever)
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"say", "bye"}}}}
	w := newWorld(t, p)
	w.host.guests.hold[state.PreStopID] = true
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true)
	w.deleteWithin(longGrace)
	w.await("the hook runs", func() bool { return w.host.given(state.PreStopID) != nil })
	w.stopAgent()
	w.inputs.unresolved = errors.New("its Secret was deleted")
	w.host.exit(state.PreStopID, exited(0))
	w.startAgent()
	w.frozen.Store(false)
	w.awaitGone("a")
	if n := w.host.count("exec tk-uid-a-0 prestop"); n != 1 || w.told("FailedPreStopHook") {
		t.Errorf("the hook ran %d times, events %v", n, w.events.all())
	}
}

// TestAnAgentThatStopsInAPreStopHookSaysNothingOfIt: the next one awaits the hook, and tells the
// command and its guest.
func TestAnAgentThatStopsInAPreStopHookSaysNothingOfIt(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyNever)
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"say", "bye"}}}}
	w := newWorld(t, p)
	var said bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.host.guests.hold[state.PreStopID] = true
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true)
	w.deleteWithin(60)
	w.await("the hook runs", func() bool { return w.host.given(state.PreStopID) != nil })
	w.stopAgent()
	if said.Len() > 0 {
		t.Errorf("said %s", said.String())
	}
	w.log = slog.New(slog.DiscardHandler)
	w.startAgent()
	w.host.exit(state.PreStopID, exited(0))
	w.frozen.Store(false)
	w.awaitGone("a")
}

// Requests of both hooks are made in one way, and what no kubelet runs fails alike.
func TestThePreStopHookIsRunAsAPostStartHook(t *testing.T) {
	for why, hook := range map[string]*corev1.LifecycleHandler{
		shim.ErrPortRefused.Error():      {HTTPGet: &corev1.HTTPGetAction{Path: "/bye", Port: intstr.FromInt32(8080)}},
		action.ErrNoHandler.Error():      {},
		`container vm has no port named`: {HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("web")}},
	} {
		p := podtest.Job(corev1.RestartPolicyNever)
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: hook}
		w := newWorld(t, p)
		w.startAgent()
		w.awaitRunning("a")
		w.frozen.Store(true) // the grace is not over before the hook has failed
		w.deleteWithin(30)
		w.await("the hook fails: "+why, func() bool {
			all := strings.Join(w.events.all(), "\n")
			return strings.Contains(all, "FailedPreStopHook PreStopHook failed: ") && strings.Contains(all, why)
		})
		w.frozen.Store(false)
		w.awaitGone("a")
	}
}

// A hook that takes all of the grace leaves the command its last seconds.
func TestAPreStopHookThatHangs(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyNever)
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 36000}}}
	w := newWorld(t, p)
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true) // a busy machine would use up the command's last seconds
	begin := w.clock.Now()
	w.deleteWithin(1800)
	w.awaitEndingOnRecord()
	w.clock.Step(1780 * time.Second)
	w.await("the command is told to end", func() bool {
		w.clock.Step(20 * time.Millisecond)
		return w.host.count("signal tk-uid-a-0 main") > 0
	})
	w.frozen.Store(false)
	w.awaitGone("a")
	if took := w.clock.Since(begin); took > 5*time.Hour || w.host.guests.signals != 1 {
		t.Errorf("it took %s, %d signals", took, w.host.guests.signals)
	}
}

// What ends by itself, or by its hook, has no use for the rest of the hook, or of the grace.
func TestACommandThatEndsInItsPreStopHook(t *testing.T) {
	exec := podtest.Job(corev1.RestartPolicyNever)
	exec.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"say", "bye"}}}}
	for name, p := range map[string]*corev1.Pod{"a command": exec, "a sleep": sleepingBeforeItsEnd(10 * time.Hour)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, p)
			w.host.guests.hold[state.PreStopID] = true
			w.startAgent()
			w.awaitRunning("a")
			w.frozen.Store(true)
			begin := w.clock.Now()
			w.deleteWithin(longGrace)
			w.awaitEndingOnRecord()
			if name == "a command" {
				w.await("the hook runs", func() bool { return w.host.given(state.PreStopID) != nil })
			}
			w.host.exit("main", exited(4))
			w.frozen.Store(false)
			w.awaitGone("a")
			if took := w.clock.Since(begin); took > 5*time.Hour {
				t.Errorf("it took %s", took)
			}
			if n := w.host.count("signal tk-uid-a-0 prestop killed"); n != w.host.count("exec tk-uid-a-0 prestop") {
				t.Errorf("the hook was killed %d times: %v", n, w.host.history())
			}
			if e := w.shownEnd(); e == nil || e.ExitCode != 4 || w.told("FailedPreStopHook") {
				t.Errorf("end %+v, events %v", e, w.events.all())
			}
		})
	}
}

// The next agent has a hook that sleeps do so for what is left alone.
func TestAPreStopHookThatSleepsIsNotBegunAnew(t *testing.T) {
	const asleep, before = 5 * time.Hour, 4 * time.Hour
	w := newWorld(t, sleepingBeforeItsEnd(asleep))
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true)
	begin := w.clock.Now()
	w.deleteWithin(10 * 3600)
	w.awaitEndingOnRecord()
	w.clock.Step(before)
	w.stopAgent()
	w.startAgent()
	w.frozen.Store(false)
	w.awaitSignal()
	if took := w.clock.Since(begin); took < asleep || took > before+asleep-time.Hour {
		t.Errorf("the command was told after %s", took)
	}
	w.awaitGone("a")
}

// A command whose shim is gone can be told nothing: its grace is not waited for.
func TestWhereNoShimIsLeftTheGuestGoesDown(t *testing.T) {
	w := newWorld(t, sleepingBeforeItsEnd(time.Minute))
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true)
	w.deleteWithin(10 * 3600)
	w.awaitEndingOnRecord()
	w.host.orphan()
	begin := w.clock.Now()
	w.frozen.Store(false)
	w.awaitGone("a")
	if took := w.clock.Since(begin); took > 5*time.Hour {
		t.Errorf("it took %s", took)
	}
}

// sleepingBeforeItsEnd is a Pod whose preStop hook sleeps.
func sleepingBeforeItsEnd(d time.Duration) *corev1.Pod {
	p := podtest.Job(corev1.RestartPolicyNever)
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(d.Seconds())}}}
	return p
}

// The firewall is proved on while the command of a young guest ends.
func TestAFailedProofEndsTheGrace(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	var open atomic.Bool
	w.guard(func(int) error {
		if open.Load() {
			return errOpen
		}
		return nil
	})
	w.host.guests.stubborn = true
	w.frozen.Store(true) // the guest stays young
	w.startAgent()
	w.awaitRunning("a")
	w.deleteWithin(longGrace)
	w.awaitSignal()
	begin := w.clock.Now()
	open.Store(true)
	w.frozen.Store(false)
	w.awaitGone("a")
	if took := w.clock.Since(begin); took > longButNoGrace || w.events.count("a", state.ReasonNotProved) != 1 {
		t.Errorf("it took %s, events %v", took, w.events.all())
	}
}
