package pod

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A machine in which nothing ran is no end of a Pod, and its code is nobody's.
func TestWhereNothingRanThePodWaits(t *testing.T) {
	crash := func(w *world) {
		w.await("the VM runs", func() bool { return w.events.count("a", "Started") > 0 })
		w.frozen.Store(true) // or a slow machine sees the second start only
		w.host.end("tk-uid-a-0", vm.RunEnd{Tail: "due to error"}, "end")
	}
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		fault  func(w *world)
		then   func(w *world)
		reason string
	}{
		"tart fails, a command": {podtest.Job(corev1.RestartPolicyNever), func(w *world) {
			w.host.runEnds = []vm.RunEnd{{Code: 1, Tail: "no such disk"}}
		}, nil, state.ReasonRunError},
		"tart fails, a VM": {podtest.OnMac("a", corev1.RestartPolicyNever), func(w *world) {
			w.host.runEnds = []vm.RunEnd{{Code: 1, Tail: "no such disk"}}
		}, nil, state.ReasonRunError},
		"there is no session": {podtest.Job(corev1.RestartPolicyNever), func(w *world) {
			w.host.runEnds = []vm.RunEnd{{Code: 1, Tail: "OSStatus -25308"}}
		}, nil, state.ReasonSession},
		"the guest crashes while it boots": {podtest.Job(corev1.RestartPolicyNever), func(w *world) { w.host.guests.boots = true }, crash, state.ReasonRunError},
		"a shim cannot write":              {podtest.Job(corev1.RestartPolicyNever), func(w *world) { w.host.shimless = true }, nil, state.ReasonRunError},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.pod)
			c.fault(w)
			w.frozen.Store(true)
			w.startAgent()
			if c.then != nil {
				w.frozen.Store(false)
				c.then(w)
			}
			p := w.awaitWaiting(c.reason)
			w.frozen.Store(false)
			if m := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(m, "back-off 10s") {
				t.Errorf("message %q", m)
			}
			if w.events.count("a", "Failed") == 0 {
				t.Errorf("events %v", w.events.all())
			}
			w.host.mu.Lock()
			w.host.shimless, w.host.guests.boots = false, false
			w.host.mu.Unlock()
			if p := w.awaitRunning("a"); p.Status.ContainerStatuses[0].RestartCount != 0 {
				t.Errorf("%d restarts", p.Status.ContainerStatuses[0].RestartCount)
			}
		})
	}
}

// A clock that is set back holds up no restart.
func TestAClockThatIsSetBackHoldsUpNoRestart(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitRunning("a")
	w.stopAgent()
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	w.frozen.Store(true)
	w.clock.SetTime(w.clock.Now().Add(-24 * time.Hour))
	begin := w.clock.Now()
	w.frozen.Store(false)
	w.startAgent()
	w.awaitPod("a", "was restarted", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].Ready
	})
	// The back-off is ten seconds; the clock runs on while a busy machine does the rest.
	if took := w.clock.Since(begin); took > time.Hour {
		t.Errorf("the first restart waited %s", took)
	}
}

func TestGuestTimeout(t *testing.T) {
	w := newWorld(t)
	p := podtest.Job(corev1.RestartPolicyNever)
	commands := &guestCommands{progress: &progress{}, clock: w.clock}
	for name, c := range map[string]struct {
		started time.Time
		want    time.Duration
	}{
		"not known":         {time.Time{}, 5 * time.Minute},
		"at once":           {w.clock.Now(), 5 * time.Minute},
		"after a minute":    {w.clock.Now().Add(-time.Minute), 4 * time.Minute},
		"after an hour":     {w.clock.Now().Add(-time.Hour), 10 * time.Second},
		"the clock is back": {w.clock.Now().Add(time.Hour), 5 * time.Minute},
	} {
		commands.progress.Started = c.started
		if got := commands.guestRun(p, &Prepared{}, state.MainID).Timeout; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The end of an init container that is not restarted stays, as the API wants it, until
// the container has ended again.
func TestInitContainersKeepTheirEndInARestart(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyOnFailure, "one"))
	w.startAgent()
	w.awaitRunning("a")
	w.host.mu.Lock()
	w.host.guests.hold = map[string]bool{"init-0": true}
	w.host.mu.Unlock()
	w.host.exit("main", exited(1))
	w.await("the init container runs again", func() bool { return w.host.count("exec tk-uid-a-1 init-0") == 1 })
	p := w.awaitPod("a", "shows the restart", func(p *corev1.Pod) bool { return p.Status.ContainerStatuses[0].RestartCount == 1 })
	init, main := p.Status.InitContainerStatuses[0], p.Status.ContainerStatuses[0]
	if init.State.Terminated == nil || init.ContainerID != "tart://tk-uid-a-0/one" || main.State.Waiting == nil {
		t.Errorf("init %+v, main %+v", init, main.State)
	}
	w.host.exit("init-0", exited(0))
	p = w.awaitRunning("a")
	if id := p.Status.InitContainerStatuses[0].ContainerID; id != "tart://tk-uid-a-1/one" {
		t.Errorf("the new end is that of %s", id)
	}
}

func TestACommandThatCannotBeRunIsNamed(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyNever)
	p.Spec.Containers[0].WorkingDir = "/Users/Shared/src"
	w := newWorld(t, p)
	w.startAgent()
	w.awaitRunning("a")
	w.host.exit("main", shim.CommandEnd{Outcome: shim.NotExecuted, Message: "no such file"})
	e := w.awaitPhase(corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated
	want := `the guest could not run "make" in the directory "/Users/Shared/src": no such file`
	if e.Message != want {
		t.Errorf("message %q", e.Message)
	}
	if !slices.Contains(w.events.all(), "a Failed Error: "+want) {
		t.Errorf("events %v", w.events.all())
	}
}

// A start that was cut short before its shim began is made again in its directory.
func TestAnAttemptIsMadeAgainInItsDirectory(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	j := checkpoint.Store(filepath.Join(w.dir, "pods"))
	if err := j.Save(state.Record{UID: "uid-a", Step: state.StepStarting, BootSession: w.boot}); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(j.AttemptDir("uid-a", 0), 0o700); err != nil {
		t.Fatal(err)
	}
	w.startAgent()
	w.awaitRunning("a")
}

// Of a Pod that ends before anything ran, the first container alone has ended, and at no
// time; those behind it wait for good. Without init containers that is the main one.
func TestAPodThatEndsBeforeAnythingRan(t *testing.T) {
	for name, inits := range map[string][]string{"with init containers": {"fetch", "build"}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			p := podtest.Job(corev1.RestartPolicyNever, inits...)
			p.Spec.ActiveDeadlineSeconds = new(int64)
			*p.Spec.ActiveDeadlineSeconds = 5
			w := newWorld(t, p)
			w.host.pullGate = make(chan struct{})
			w.startAgent()
			s := w.awaitPhase(corev1.PodFailed).Status
			all := slices.Concat(s.InitContainerStatuses, s.ContainerStatuses)
			e := all[0].State.Terminated
			if e == nil || e.ExitCode != 137 || e.Reason != state.ReasonUnknown || !e.StartedAt.IsZero() || !e.FinishedAt.IsZero() {
				t.Errorf("the first container: %+v", all[0].State)
			}
			for _, c := range all[1:] {
				if c.State.Waiting == nil || c.State.Waiting.Reason != state.ReasonInitializing {
					t.Errorf("%s: %+v", c.Name, c.State)
				}
			}
		})
	}
}

// As with a kubelet: what could not start was never shown to run.
func TestACommandThatCannotBeRunHasNotStarted(t *testing.T) {
	for name, p := range map[string]*corev1.Pod{
		"alone":          podtest.Job(corev1.RestartPolicyNever),
		"beside another": two(corev1.RestartPolicyNever),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, p)
			w.host.guests.missing = map[string]bool{"main": true}
			w.startAgent()
			w.await("it failed", func() bool { return w.events.count("a", "Failed") == 1 })
			if w.told("a Started Started container vm") {
				t.Errorf("events %v", w.events.all())
			}
			if e := w.pod("a").Status.ContainerStatuses[0].State; e.Running != nil {
				t.Errorf("shown as running: %+v", e)
			}
		})
	}
}
