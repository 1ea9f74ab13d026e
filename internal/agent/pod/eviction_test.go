package pod

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A host that is short of something ends Pods whatever their policy, and has back what
// they held when it is told that they are gone.
func TestAPodIsEvicted(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.host.vms = t.TempDir()
	s := w.startAgent()
	w.awaitRunning("a")
	holders := s.Holders()
	if len(holders) != 1 || holders[0].Pod.Status.Phase != corev1.PodRunning || holders[0].CloneBytes < 8<<10 || holders[0].VMDir != w.host.vms+"/tk-uid-a-0" {
		t.Fatalf("holders %+v", holders)
	}
	gone := s.Evict("uid-a", "The node was low on resource: memory. ")
	if gone == nil {
		t.Fatal("it is not evicted")
	}
	p := w.awaitPhase(corev1.PodFailed)
	if p.Status.Reason != "Evicted" || p.Status.Message != "The node was low on resource: memory. " {
		t.Errorf("reason %q, message %q", p.Status.Reason, p.Status.Message)
	}
	c := conditionOf(p, corev1.DisruptionTarget)
	if c.Status != corev1.ConditionTrue || c.Reason != corev1.PodReasonTerminationByKubelet || c.Message != p.Status.Message {
		t.Errorf("condition %+v", c)
	}
	<-gone
	if names := w.host.names(); len(names) != 0 || w.events.count("a", "Evicted") != 1 {
		t.Errorf("left: %v, events %v", names, w.events.all())
	}
	if left := s.Holders(); len(left) != 0 || s.Evict("uid-a", "again") != nil || s.Evict("uid-b", "unknown") != nil {
		t.Errorf("it is evicted again, or holds something: %+v", left)
	}
}

// A Pod that waits for its next VM has volumes and logs: another one does not go in its place.
func TestAPodIsEvictedInItsBackOff(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyAlways))
	s := w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true) // the second run is no long one
	w.host.exit("main", exited(1))
	w.awaitPod("a", "runs again", func(p *corev1.Pod) bool { return mainOf(p).RestartCount == 1 && mainOf(p).State.Running != nil })
	w.host.exit("main", exited(1))
	w.awaitWaiting("CrashLoopBackOff")
	holders := s.Holders()
	if len(holders) != 1 || !holders[0].Ended || holders[0].VMDir != "" || filepath.Base(holders[0].LogDir) != "attempt-1" {
		t.Fatalf("holders %+v", holders)
	}
	gone := s.Evict("uid-a", "The node was low on resource: ephemeral-storage. ")
	if gone == nil {
		t.Fatal("it is not evicted")
	}
	if p := w.awaitPhase(corev1.PodFailed); p.Status.Reason != "Evicted" || w.host.count("create") != 2 {
		t.Errorf("reason %q, host %v", p.Status.Reason, w.host.history())
	}
	<-gone
	if left := w.inputs.left(); left != "held 0, kept 0" {
		t.Error(left)
	}
}

// A VM uses memory while none of its containers runs, and while its Pod ends.
func TestGuestsAreTheVMsThatRun(t *testing.T) {
	w := newWorld(t, two(corev1.RestartPolicyAlways))
	w.host.vms = t.TempDir()
	s := w.startAgent()
	guests := func() int {
		list := s.Guests()
		for _, g := range list {
			if !g.Runs || g.VMDir != w.host.vms+"/tk-uid-a-0" {
				t.Errorf("guest %+v", g)
			}
		}
		return len(list)
	}
	w.awaitAllRunning()
	w.frozen.Store(true) // the second end has a back-off
	for _, run := range []string{"", "-r1"} {
		for id, name := range map[string]string{"main": "vm", "c-1": "web"} {
			w.host.exit(id+run, exited(1))
			w.awaitContainer(name, "has ended", func(c corev1.ContainerStatus) bool {
				return c.LastTerminationState.Terminated != nil && (c.State.Waiting != nil || run == "" && c.State.Running != nil)
			})
		}
	}
	if n := guests(); n != 1 {
		t.Errorf("%d guests while no container runs", n)
	}
	w.frozen.Store(false)
	w.awaitAllRunning()
	w.host.mu.Lock()
	w.host.guests.stubborn = true
	w.host.mu.Unlock()
	w.frozen.Store(true)
	w.deleteWithin(3600)
	w.await("both are told to end", func() bool { return w.host.count("signal") == 2 })
	if n := guests(); n != 1 || len(s.Holders()) != 0 {
		t.Errorf("%d guests while its Pod ends, which is evicted again: %+v", n, s.Holders())
	}
	w.frozen.Store(false)
	w.awaitGone("a")
	w.await("its guest is gone", func() bool { return guests() == 0 })
}

// An agent that is restarted meanwhile goes on with the eviction: its VM is no crash, after which
// the Pod would be restarted.
func TestAnEvictionOutlivesTheAgent(t *testing.T) {
	for name, deleted := range map[string]bool{"": false, "deleted meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
			s := w.startAgent()
			w.awaitRunning("a")
			w.frozen.Store(true)
			w.inputs.mu.Lock()
			w.inputs.tears = []error{errors.New("a volume is busy")}
			w.inputs.mu.Unlock()
			s.Evict("uid-a", "The node was low on resource: memory. ")
			w.await("its VM is gone", func() bool { return len(w.host.names()) == 0 })
			w.stopAgent()
			if deleted {
				w.delete("a")
			}
			w.frozen.Store(false)
			w.startAgent()
			if deleted {
				w.awaitGone("a")
				w.phases.mu.Lock()
				defer w.phases.mu.Unlock()
				if w.phases.reason != "Evicted" {
					t.Errorf("reason %q", w.phases.reason)
				}
				return
			}
			p := w.awaitPhase(corev1.PodFailed)
			if p.Status.Reason != "Evicted" || p.Status.Message != "The node was low on resource: memory. " {
				t.Errorf("reason %q, message %q", p.Status.Reason, p.Status.Message)
			}
			if c := conditionOf(p, corev1.DisruptionTarget); c.Status != corev1.ConditionTrue || w.host.count("create") != 1 {
				t.Errorf("condition %+v, host %v", c, w.host.history())
			}
		})
	}
}

// Why the Pod fails is written down before anything of it is stopped.
func TestAnEvictionOutlivesTheAgentWhileItsGuestStops(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.host.stopGate = make(chan struct{})
	w.frozen.Store(true)
	s := w.startAgent()
	w.awaitRunning("a")
	s.Evict("uid-a", "The node was low on resource: memory. ")
	w.await("the guest is asked to shut down", func() bool { return w.host.stops() == 1 })
	w.stopAgent()
	close(w.host.stopGate)
	w.startAgent()
	w.frozen.Store(false)
	if p := w.awaitPhase(corev1.PodFailed); p.Status.Reason != "Evicted" || w.host.count("create") != 1 {
		t.Errorf("reason %q, host %v", p.Status.Reason, w.host.history())
	}
}

// Logs of Pods that have ended go before a Pod that runs does, and no more of them than it takes.
func TestLogsOfEndedPodsGoFirst(t *testing.T) {
	var pods []*corev1.Pod
	begun := time.Now().Add(-time.Hour)
	for i, name := range []string{"old", "new", "runs"} {
		p := podtest.OnMac(name, corev1.RestartPolicyNever)
		p.CreationTimestamp = metav1.NewTime(begun.Add(time.Duration(i) * time.Minute))
		pods = append(pods, p)
	}
	w := newWorld(t, pods[:2]...)
	s := w.startAgent()
	w.awaitRunning("old")
	w.awaitRunning("new")
	for _, name := range []string{"old", "new"} {
		w.host.end("tk-uid-"+name+"-0", vm.RunEnd{}, "end")
	}
	w.create(pods[2])
	w.awaitRunning("runs")
	w.await("both have ended", func() bool { return len(s.ended()) == 2 })
	left := func() []string {
		dirs, err := filepath.Glob(filepath.Join(w.dir, "pods", "*", "attempt-0"))
		if err != nil {
			t.Fatal(err)
		}
		for i, dir := range dirs {
			dirs[i] = filepath.Base(filepath.Dir(dir))
		}
		return dirs
	}
	asked := 0
	enoughAfter := func(n int) func() bool {
		asked = 0
		return func() bool { asked++; return asked > n }
	}
	for n, want := range [][]string{{"uid-new", "uid-old", "uid-runs"}, {"uid-new", "uid-runs"}, {"uid-runs"}} {
		if err := s.FreeLogs(enoughAfter(n)); err != nil {
			t.Fatal(err)
		}
		if got := left(); !slices.Equal(got, want) {
			t.Errorf("enough after %d: logs of %v, want %v", n, got, want)
		}
	}
}

// What was admitted goes on, and is restarted, on a host under pressure; what comes then
// has failed at once.
func TestAHostUnderPressureTakesNoPods(t *testing.T) {
	for name, c := range map[string]struct {
		pressures []corev1.NodeConditionType
		message   string
	}{
		"of its disk":   {[]corev1.NodeConditionType{corev1.NodeDiskPressure}, "The node had condition: [DiskPressure]. "},
		"of its memory": {[]corev1.NodeConditionType{corev1.NodeMemoryPressure}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
			w.pressures = func() []corev1.NodeConditionType { return c.pressures }
			w.startAgent()
			if c.message == "" {
				w.awaitRunning("a")
				return
			}
			p := w.awaitPhase(corev1.PodFailed)
			if p.Status.Reason != state.ReasonEvicted || p.Status.Message != c.message || w.host.count("create") != 0 {
				t.Errorf("%+v, %v", p.Status, w.host.history())
			}
		})
	}
}

func TestAPodThatWasAdmittedGoesOnUnderPressure(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitRunning("a")
	w.stopAgent()
	w.pressures = func() []corev1.NodeConditionType { return []corev1.NodeConditionType{corev1.NodeDiskPressure} }
	w.startAgent()
	w.host.vanish()
	w.awaitPod("a", "runs again", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	})
}
