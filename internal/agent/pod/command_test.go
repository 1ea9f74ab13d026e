package pod

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/volume"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

func (w *world) awaitCommand(id string) {
	w.t.Helper()
	w.await("the command "+id+" runs", func() bool { return w.host.given(id) != nil })
}

func exited(code int) shim.CommandEnd { return shim.CommandEnd{Outcome: shim.Exited, Code: code} }

func TestAJobHasTheExitCodeOfItsCommand(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    shim.CommandEnd
		phase  corev1.PodPhase
		code   int32
		reason string
	}{
		{"success", exited(0), corev1.PodSucceeded, 0, "Completed"},
		{"failure", exited(3), corev1.PodFailed, 3, "Error"},
		{"a signal", exited(143), corev1.PodFailed, 143, "Error"},
		{"no such command", shim.CommandEnd{Outcome: shim.NotExecuted, Message: "no such file"}, corev1.PodFailed, 128, "StartError"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
			w.startAgent()
			w.awaitRunning("a")
			w.host.exit("main", c.end)
			e := w.awaitPhase(c.phase).Status.ContainerStatuses[0].State.Terminated
			if e == nil || e.ExitCode != c.code || e.Reason != c.reason || e.ContainerID != "tart://tk-uid-a-0" {
				t.Errorf("terminated: %+v", e)
			}
			want := []string{"create tk-uid-a-0", "run tk-uid-a-0", "exec tk-uid-a-0 main", "stop tk-uid-a-0", "delete tk-uid-a-0"}
			if d := gocmp.Diff(want, w.host.history()); d != "" {
				t.Errorf("host (-want +got):\n%s", d)
			}
			if d := gocmp.Diff([]string{"make", "test"}, w.host.given("main").Command.Argv); d != "" {
				t.Errorf("argv (-want +got):\n%s", d)
			}
		})
	}
}

// A command whose output is the log is Running from its begin on, not before.
func TestACommandRunsOnceTheGuestTookIt(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever, "fetch"))
	w.host.guests.hold["init-0"] = true
	w.startAgent()
	p := w.awaitPod("a", "initializes", func(p *corev1.Pod) bool {
		s := p.Status.InitContainerStatuses
		return len(s) == 1 && s[0].State.Running != nil
	})
	main := p.Status.ContainerStatuses[0]
	if p.Status.Phase != corev1.PodPending || main.State.Waiting == nil || main.State.Waiting.Reason != "PodInitializing" {
		t.Errorf("phase %s, main %+v", p.Status.Phase, main.State)
	}
	if s := state.ConditionOf(p.Status.Conditions, corev1.PodInitialized); s != corev1.ConditionFalse {
		t.Errorf("Initialized is %s", s)
	}
	w.host.exit("init-0", exited(0))
	p = w.awaitRunning("a")
	init := p.Status.InitContainerStatuses[0]
	if init.State.Terminated == nil || !init.Ready || init.ContainerID != "tart://tk-uid-a-0/fetch" {
		t.Errorf("init container: %+v", init)
	}
	if s := state.ConditionOf(p.Status.Conditions, corev1.PodInitialized); s != corev1.ConditionTrue {
		t.Errorf("Initialized is %s", s)
	}
}

func TestInitContainersRunInOrderBeforeMain(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever, "one", "two"))
	w.inputs.setup = "link"
	w.startAgent()
	w.awaitRunning("a")
	want := []string{
		"create tk-uid-a-0", "run tk-uid-a-0",
		"exec tk-uid-a-0 setup", "exec tk-uid-a-0 init-0", "exec tk-uid-a-0 init-1", "exec tk-uid-a-0 main",
	}
	if d := gocmp.Diff(want, w.host.history()); d != "" {
		t.Errorf("host (-want +got):\n%s", d)
	}
}

func TestAFailedInitContainerEndsTheAttempt(t *testing.T) {
	for policy, failed := range map[corev1.RestartPolicy]bool{
		corev1.RestartPolicyNever: true, corev1.RestartPolicyOnFailure: false, corev1.RestartPolicyAlways: false,
	} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t, podtest.Job(policy, "one"))
			w.host.guests.hold["init-0"] = true
			w.startAgent()
			w.awaitCommand("init-0")
			w.host.exit("init-0", exited(7))
			if failed {
				p := w.awaitPhase(corev1.PodFailed)
				e := p.Status.InitContainerStatuses[0].State.Terminated
				if e == nil || e.ExitCode != 7 || p.Status.ContainerStatuses[0].State.Waiting == nil {
					t.Errorf("init %+v, main %+v", e, p.Status.ContainerStatuses[0].State)
				}
				return
			}
			w.await("another clone initializes", func() bool { return slices.Contains(w.host.history(), "exec tk-uid-a-1 init-0") })
			w.host.exit("init-0", exited(0))
			p := w.awaitRunning("a")
			init, main := p.Status.InitContainerStatuses[0], p.Status.ContainerStatuses[0]
			if init.RestartCount != 1 || main.RestartCount != 0 || main.LastTerminationState.Terminated != nil {
				t.Errorf("restarts of init %d, of main %d, last of main %+v", init.RestartCount, main.RestartCount, main.LastTerminationState)
			}
			if e := init.LastTerminationState.Terminated; e == nil || e.ExitCode != 7 {
				t.Errorf("last state of init: %+v", e)
			}
			if w.host.count("exec tk-uid-a-0 main") != 0 {
				t.Error("main ran although init failed")
			}
		})
	}
}

// All init containers run again after main ended, in a fresh clone.
func TestARestartInitializesAnew(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyOnFailure, "one"))
	w.startAgent()
	w.awaitRunning("a")
	w.host.exit("main", exited(1))
	p := w.awaitPod("a", "was restarted", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].RestartCount == 1 && s[0].Ready
	})
	if n := p.Status.InitContainerStatuses[0].RestartCount; n != 1 {
		t.Errorf("restarts of init: %d", n)
	}
	w.host.exit("main", exited(0))
	w.awaitPhase(corev1.PodSucceeded)
	if n := w.host.count("exec tk-uid-a-1 init-0"); n != 1 {
		t.Errorf("the second clone initialized %d times", n)
	}
}

func TestAGuestWithoutAgent(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.host.guests.noAgent = true
	w.startAgent()
	e := w.awaitPhase(corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated
	if e == nil || e.Reason != "GuestAgentMissing" || e.ExitCode != 128 {
		t.Errorf("terminated: %+v", e)
	}
	if w.events.count("a", "GuestAgentMissing") != 1 {
		t.Errorf("events: %v", w.events.all())
	}
}

func TestAVMThatNeedsNothingNeedsNoAgent(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyNever)
	w := newWorld(t, p)
	w.host.guests.noAgent = true
	w.startAgent()
	w.awaitRunning("a")
}

// Admission adds the token to every Pod: a VM neither waits for it nor fails.
func TestTheTokenAloneMakesNoVMWait(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyNever)
	p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-x7k2p", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
	w := newWorld(t, p)
	w.inputs.setup = "link"
	w.host.guests.noAgent = true
	w.startAgent()
	w.awaitRunning("a")
	w.await("the user is told", func() bool { return w.events.count("a", "TokenNotMounted") == 1 })
	if p := w.pod("a"); p.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s", p.Status.Phase)
	}
}

func TestAVMIsReadyOnceItHasItsVolumes(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.inputs.setup = "link"
	w.inputs.shares = []vm.Share{{Name: "macfleet", Path: "/state"}}
	w.host.guests.hold["setup"] = true
	w.startAgent()
	w.awaitCommand("setup")
	if p := w.pod("a"); p.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s before its volumes are there", p.Status.Phase)
	}
	w.host.exit("setup", exited(0))
	w.awaitRunning("a")
	if d := gocmp.Diff([]string{"/bin/sh", "-c", "link"}, w.host.given("setup").Command.Argv); d != "" {
		t.Errorf("argv (-want +got):\n%s", d)
	}
}

// A mount that can never work ends its container as a kubelet's does: a Pod that runs once
// has failed.
func TestAMountThatCanNeverWork(t *testing.T) {
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
		p := podtest.Job(policy)
		p.Spec.InitContainers = []corev1.Container{{Name: "prepare", Image: p.Spec.Containers[0].Image, Command: []string{"true"}}}
		w := newWorld(t, p)
		w.inputs.setup = "link"
		w.host.guests.hold["setup"] = true
		w.startAgent()
		w.awaitCommand("setup")
		w.host.exit("setup", exited(volume.NeverMounted))
		if policy == corev1.RestartPolicyNever {
			p = w.awaitPhase(corev1.PodFailed)
		} else {
			p = w.awaitPod("a", "is started again", func(p *corev1.Pod) bool {
				s := p.Status.InitContainerStatuses
				return len(s) == 1 && s[0].RestartCount == 1
			})
		}
		s := p.Status.InitContainerStatuses[0]
		e := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated)
		if e == nil || e.ExitCode != 128 || e.Reason != "StartError" || e.Message == "" {
			t.Errorf("%s: the first container ended with %+v", policy, e)
		}
		if w.events.count("a", "FailedMount") != 1 {
			t.Errorf("%s: events: %v", policy, w.events.all())
		}
	}
}

// What was not mounted this time is no end of the Pod, whatever its policy: nothing ran.
func TestAMountThatFailsIsTriedAgain(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.inputs.setup = "link"
	w.host.guests.hold["setup"] = true
	w.startAgent()
	w.awaitCommand("setup")
	w.frozen.Store(true)
	w.host.exit("setup", exited(1))
	w.awaitWaiting("CreateContainerConfigError")
	w.frozen.Store(false)
	if w.events.count("a", "FailedMount") != 1 {
		t.Errorf("events: %v", w.events.all())
	}
	w.await("another try", func() bool { return slices.Contains(w.host.history(), "exec tk-uid-a-1 setup") })
	w.host.exit("setup", exited(0))
	p := w.awaitRunning("a")
	if n := p.Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("restartCount %d", n)
	}
}

func TestWhatIsMissingIsWaitedFor(t *testing.T) {
	t.Run("an object", func(t *testing.T) { missingUntil(t, func(w *world) { w.inputs.change() }) })
	t.Run("an annotation", func(t *testing.T) {
		missingUntil(t, func(w *world) { w.edit("a", func(p *corev1.Pod) { p.Annotations = map[string]string{"path": "foo"} }) })
	})
}

func missingUntil(t *testing.T, change func(*world)) {
	t.Helper()
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.inputs.errs = []error{errors.New(`secret "s" does not exist`)}
	w.frozen.Store(true)
	w.startAgent()
	p := w.awaitWaiting("CreateContainerConfigError")
	if m := p.Status.ContainerStatuses[0].State.Waiting.Message; m != `secret "s" does not exist` {
		t.Errorf("message %q", m)
	}
	if len(w.host.history()) != 0 {
		t.Errorf("the host was touched: %v", w.host.history())
	}
	// The back-off ends when what is missing comes.
	change(w)
	w.frozen.Store(false)
	w.awaitRunning("a")
}

func TestTheExitCodeThatAVMReports(t *testing.T) {
	code := int32(4)
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.inputs.mu.Lock()
	w.inputs.report = &code
	w.inputs.mu.Unlock()
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	e := w.awaitPhase(corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated
	if e == nil || e.ExitCode != 4 || e.Reason != "Error" {
		t.Errorf("terminated: %+v", e)
	}
}
