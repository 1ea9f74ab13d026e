package pod

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestPodBecomesAVM(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	p := w.awaitRunning("a")

	s := p.Status.ContainerStatuses[0]
	if s.ContainerID != "tart://tk-uid-a-0" || s.ImageID != "registry.test/macos/base@"+digest || s.RestartCount != 0 || !*s.Started || s.State.Running == nil {
		t.Errorf("container status: %+v", s)
	}
	if p.Status.HostIP != "10.0.0.7" || p.Status.PodIP != "" || p.Status.StartTime == nil || p.Status.ObservedGeneration != 1 {
		t.Errorf("status: %+v", p.Status)
	}
	got := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range p.Status.Conditions {
		got[c.Type] = c.Status
		if c.Type == corev1.PodReady && c.Reason != "" {
			t.Errorf("Ready has kept a reason: %q", c.Reason)
		}
		if c.ObservedGeneration != 1 {
			t.Errorf("%s is of generation %d", c.Type, c.ObservedGeneration)
		}
	}
	want := map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodScheduled: corev1.ConditionTrue, corev1.PodReadyToStartContainers: corev1.ConditionTrue,
		corev1.PodInitialized: corev1.ConditionTrue, corev1.ContainersReady: corev1.ConditionTrue, corev1.PodReady: corev1.ConditionTrue,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("conditions (-want +got):\n%s", d)
	}
	w.await("all events", func() bool { return len(w.events.all()) == 4 })
	if d := cmp.Diff([]string{"Pulling", "Pulled", "Created", "Started"}, w.events.reasons("a")); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestDeletionEndsWithTheVMGone(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitRunning("a")
	w.delete("a")
	w.awaitGone("a")
	want := []string{"create tk-uid-a-0", "run tk-uid-a-0", "stop tk-uid-a-0", "delete tk-uid-a-0"}
	if d := cmp.Diff(want, w.host.history()); d != "" {
		t.Errorf("host (-want +got):\n%s", d)
	}
	if !w.told("a Killing Stopping container vm") {
		t.Errorf("no Killing in %v", w.events.all())
	}
	w.await("the checkpoint is gone", func() bool {
		entries, err := os.ReadDir(filepath.Join(w.dir, "pods"))
		return err == nil && len(entries) == 0
	})
	// A VM that was stopped has not succeeded, or a Job would count it.
	if last := w.phases.last("uid-a"); last != corev1.PodFailed {
		t.Errorf("last phase written is %s", last)
	}
}

func (l *phaseLog) last(uid string) corev1.PodPhase {
	l.mu.Lock()
	defer l.mu.Unlock()
	if phases := l.seen[uid]; len(phases) > 0 {
		return phases[len(phases)-1]
	}
	return ""
}

func TestDeletionEndsAlthoughTheCloneStays(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.staysThroughDeletes()
	w.startAgent()
	w.awaitRunning("a")
	w.delete("a")
	w.awaitGone("a")
	// The sweep goes on trying.
	w.await("the clone is gone", func() bool { return len(w.host.names()) == 0 })
}

// staysThroughDeletes has one clone stay whatever its worker does: at the end of a Pod its VM is
// removed, and then all that there are.
func (w *world) staysThroughDeletes() {
	for range 2 * vmruntime.DeleteTries {
		w.host.deleteErrs = append(w.host.deleteErrs, errors.New("the disk is sick"))
	}
}

// A Pod that is restarted again and again does not fill the Mac with clones.
func TestACloneThatStaysIsSweptBesideTheNextAttempt(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.staysThroughDeletes()
	s := w.startAgent()
	w.awaitRunning("a")
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	w.await("its next VM is the only one", func() bool { return cmp.Equal(w.host.names(), []string{"tk-uid-a-1"}) })
	w.awaitRunning("a")
	if n := w.host.count("delete tk-uid-a-0"); n != 1 || w.host.count("stop tk-uid-a-1") != 0 {
		t.Errorf("host %v", w.host.history())
	}
	if free := s.slots.Free(); free != 1 {
		t.Errorf("%d of 2 slots are free beside a Pod that runs", free)
	}
}

// The object of a Pod that has ended may stay for days.
func TestWhatStaysOfAPodThatHasEndedIsSwept(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.staysThroughDeletes()
	for range vmruntime.DeleteTries {
		w.inputs.tears = append(w.inputs.tears, errors.New("the RAM disk is sick"))
	}
	w.startAgent()
	w.awaitRunning("a")
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	w.awaitPhase(corev1.PodSucceeded)
	w.await("nothing is left but the object", func() bool { return len(w.host.names()) == 0 && w.inputs.left() == "held 0, kept 0" })
	if w.pod("a") == nil || !w.told("a VolumesLeft ") || !w.told("the RAM disk is sick") {
		t.Errorf("events %v", w.events.all())
	}
}

func TestDeletionWhilePulling(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.host.pullGate = make(chan struct{})
	w.startAgent()
	w.await("a pull", func() bool { return w.events.reasons("a") != nil })
	w.delete("a")
	w.awaitGone("a")
	if n := w.host.count("create"); n != 0 {
		t.Errorf("%d VMs were made for a Pod that was deleted", n)
	}
}

func TestForceDeletionStopsTheVM(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitRunning("a")
	w.forceDelete("a")
	w.await("the VM is gone", func() bool { return len(w.host.names()) == 0 })
}

func TestANewPodOfTheSameNameIsAnotherPod(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitRunning("a")
	w.forceDelete("a")
	again := podtest.OnMac("a", corev1.RestartPolicyAlways)
	again.UID = "uid-second"
	w.create(again)
	w.awaitRunning("a")
	w.await("only the second VM is left", func() bool {
		return cmp.Equal(w.host.names(), []string{"tk-uid-second-0"})
	})
}

func TestExits(t *testing.T) {
	crash := vm.RunEnd{Tail: "guest has stopped due to error: panic"}
	for _, c := range []struct {
		name   string
		policy corev1.RestartPolicy
		end    vm.RunEnd
		phase  corev1.PodPhase // empty: it is restarted
		code   int32
		reason string
	}{
		{"shut down, Never", corev1.RestartPolicyNever, vm.RunEnd{}, corev1.PodSucceeded, 0, "Completed"},
		{"shut down, OnFailure", corev1.RestartPolicyOnFailure, vm.RunEnd{}, corev1.PodSucceeded, 0, "Completed"},
		{"shut down, Always", corev1.RestartPolicyAlways, vm.RunEnd{}, "", 0, "Completed"},
		{"crash with exit 0, Never", corev1.RestartPolicyNever, crash, corev1.PodFailed, 1, "Error"},
		{"crash with exit 0, OnFailure", corev1.RestartPolicyOnFailure, crash, "", 1, "Error"},
		{"killed, Never", corev1.RestartPolicyNever, vm.RunEnd{Code: -1, Signal: 9}, corev1.PodFailed, 137, "Error"},
		{"stopped on the host, Never", corev1.RestartPolicyNever, vm.RunEnd{Tail: "Stopping VM..."}, corev1.PodFailed, 137, "Error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, podtest.OnMac("a", c.policy))
			w.startAgent()
			w.awaitRunning("a")
			w.host.end("tk-uid-a-0", c.end, "end")
			if c.phase != "" {
				p := w.awaitPhase(c.phase)
				e := p.Status.ContainerStatuses[0].State.Terminated
				if e == nil || e.ExitCode != c.code || e.Reason != c.reason {
					t.Errorf("terminated: %+v", e)
				}
				w.await("the VM of an ended Pod is gone", func() bool { return len(w.host.names()) == 0 })
				return
			}
			p := w.awaitPod("a", "was restarted", func(p *corev1.Pod) bool {
				s := p.Status.ContainerStatuses
				return len(s) == 1 && s[0].RestartCount == 1 && s[0].Ready
			})
			e := p.Status.ContainerStatuses[0].LastTerminationState.Terminated
			if e == nil || e.ExitCode != c.code || e.ContainerID != "tart://tk-uid-a-0" {
				t.Errorf("last state: %+v", e)
			}
			if d := cmp.Diff([]string{"tk-uid-a-1"}, w.host.names()); d != "" {
				t.Errorf("a restart is a fresh clone (-want +got):\n%s", d)
			}
		})
	}
}

func TestSecondRestartBacksOff(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.host.runEnds = []vm.RunEnd{{Tail: "due to error"}, {Tail: "due to error"}}
	w.frozen.Store(true)
	w.startAgent()
	w.awaitWaiting("CrashLoopBackOff")
	w.frozen.Store(false)
	p := w.awaitRunning("a")
	if n := p.Status.ContainerStatuses[0].RestartCount; n != 2 {
		t.Errorf("restartCount %d, want 2", n)
	}
}

// macOS counts its guests when tart has taken the VM's lock.
func TestAStartThatMacOSRefusesWithTheLockHeldIsNotShownAsRunning(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.host.refusals = []vm.RunEnd{{Code: 1, Tail: "exceeds the system limit"}}
	w.startAgent()
	w.awaitWaiting(state.ReasonLimited)
	if p := w.pod("a"); p.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s, want Pending", p.Status.Phase)
	}
}

// A refused start is no restart, and the Pod waits for the reboot that helps.
func TestLicenceLimitIsNoRestart(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.host.runEnds = []vm.RunEnd{{Code: 1, Tail: "exceeds the system limit"}}
	w.startAgent()
	waits := w.awaitPod("a", "says what heals it", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == state.ReasonLimited &&
			strings.Contains(s[0].State.Waiting.Message, "has lost 2 of these places") && !strings.Contains(s[0].State.Waiting.Message, "back-off")
	})
	if said := waits.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(said, "no VM of others") || !strings.Contains(said, "holds it back") {
		t.Errorf("it does not say what the reboot waits for: %s", said)
	}
	w.await("the next try has its image", func() bool { return w.events.count("a", "Pulled") == 2 })
	if p := w.pod("a"); p.Status.Phase != corev1.PodPending || waitingReason(p) != "LicenseLimitReached" {
		t.Errorf("phase %s, waiting for %s", p.Status.Phase, waitingReason(p))
	}
	w.stopAgent()
	w.boot = "boot-2"
	w.startAgent()
	p := w.awaitRunning("a")
	if n := p.Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("restartCount %d, want 0", n)
	}
	if n := w.host.count("run"); n != 2 {
		t.Errorf("%d starts", n)
	}
}

func TestPullBacksOff(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.host.pullErrs = []error{vm.ErrImageNotFound, vm.ErrAuth}
	w.frozen.Store(true)
	w.startAgent()
	w.awaitWaiting("ErrImagePull")
	// The wait begins only after its reason is shown.
	w.await("the back-off", func() bool {
		w.clock.Step(backOffShown / 100)
		return waitingReason(w.pod("a")) == "ImagePullBackOff"
	})
	p := w.pod("a")
	w.frozen.Store(false)
	if p.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s", p.Status.Phase)
	}
	w.awaitRunning("a")
	for _, want := range []string{"Failed Failed to pull image", "Failed Error: ErrImagePull", "BackOff ", "Failed Error: ImagePullBackOff"} {
		if !w.told("a " + want) {
			t.Errorf("no %s in %v", want, w.events.all())
		}
	}
}

func TestNeverPull(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
	w := newWorld(t, p)
	w.startAgent()
	w.awaitWaiting("ErrImageNeverPull")
	if w.host.pulls != 0 {
		t.Errorf("%d pulls", w.host.pulls)
	}
	image := p.Spec.Containers[0].Image
	for _, want := range []string{"ErrImageNeverPull Container image \"" + image + "\" is not present with pull policy of Never", "Failed Error: ErrImageNeverPull"} {
		if !w.told("a " + want) {
			t.Errorf("no %s in %v", want, w.events.all())
		}
	}
}

func TestCreateIsTriedAgain(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.host.createErrs = []error{vm.ErrNoSpace}
	w.frozen.Store(true)
	w.startAgent()
	w.awaitWaiting("CreateContainerError")
	w.frozen.Store(false)
	w.awaitRunning("a")
}

func TestTwoContainersAreRefused(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyNever)
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: "x/y:z"})
	w := newWorld(t, p)
	w.startAgent()
	got := w.awaitPhase(corev1.PodFailed)
	if got.Status.Reason != "UnsupportedField" || !strings.Contains(got.Status.Message, "spec.containers") {
		t.Errorf("reason %q, message %q", got.Status.Reason, got.Status.Message)
	}
	w.await("an event", func() bool { return slices.Contains(w.events.reasons("a"), "UnsupportedField") })
	if h := w.host.history(); len(h) != 0 {
		t.Errorf("a refused Pod touched the host: %v", h)
	}
	w.delete("a")
	w.awaitGone("a")
}

func TestThirdPodWaitsForASlot(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever), podtest.OnMac("b", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.awaitRunning("b")
	w.create(podtest.OnMac("c", corev1.RestartPolicyNever))
	w.await("the third is ready to be cloned", func() bool { return slices.Contains(w.events.reasons("c"), "Pulled") })
	if p := w.pod("c"); p.Status.Phase == corev1.PodRunning {
		t.Error("three VMs run on a Mac of two")
	}
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	w.awaitRunning("c")
	if w.host.most > 2 {
		t.Errorf("%d VMs ran at once", w.host.most)
	}
}
