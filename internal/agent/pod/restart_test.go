package pod

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

func TestVMsOutliveTheAgent(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	before := w.awaitRunning("a")
	w.stopAgent()
	if d := cmp.Diff([]string{"create tk-uid-a-0", "run tk-uid-a-0"}, w.host.history()); d != "" {
		t.Fatalf("the agent's stop touched the VM (-want +got):\n%s", d)
	}
	w.startAgent()
	w.await("the VM is adopted", func() bool { return slices.Contains(w.events.reasons("a"), "Adopted") })
	after := w.awaitRunning("a")
	if d := cmp.Diff(before.Status, after.Status); d != "" {
		t.Errorf("the status changed with the agent (-before +after):\n%s", d)
	}
	if n := w.host.count("run"); n != 1 {
		t.Errorf("the VM was run %d times", n)
	}
	w.delete("a")
	w.awaitGone("a")
	w.await("the VM is gone", func() bool { return len(w.host.names()) == 0 })
}

func TestReattachedVMKeepsItsSlot(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever), podtest.OnMac("b", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.awaitRunning("b")
	w.stopAgent()
	w.create(podtest.OnMac("c", corev1.RestartPolicyNever))
	w.startAgent()
	w.await("the third is ready to be cloned", func() bool { return slices.Contains(w.events.reasons("c"), "Pulled") })
	w.host.end("tk-uid-b-0", vm.RunEnd{}, "end")
	w.awaitRunning("c")
	if w.host.most > 2 {
		t.Errorf("%d VMs ran at once", w.host.most)
	}
}

func TestWhatHappensWhileTheAgentIsAway(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy corev1.RestartPolicy
		away   func(w *world)
		phase  corev1.PodPhase // of a Pod that ends; else it is restarted once
		code   int32
		reason string
	}{
		{"the guest shuts down", corev1.RestartPolicyNever, func(w *world) {
			w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
		}, corev1.PodSucceeded, 0, "Completed"},
		{"the guest crashes", corev1.RestartPolicyAlways, func(w *world) {
			w.host.end("tk-uid-a-0", vm.RunEnd{Tail: "due to error"}, "end")
		}, "", 1, "Error"},
		{"shim and VM are killed", corev1.RestartPolicyNever, func(w *world) {
			w.host.vanish()
		}, corev1.PodFailed, 137, "ContainerStatusUnknown"},
		{"the host is rebooted, Never", corev1.RestartPolicyNever, func(w *world) {
			w.host.vanish()
			w.boot = "boot-2"
		}, corev1.PodFailed, 137, "ContainerStatusUnknown"},
		{"the host is rebooted, Always", corev1.RestartPolicyAlways, func(w *world) {
			w.host.vanish()
			w.boot = "boot-2"
		}, "", 137, "ContainerStatusUnknown"},
		{"the checkpoint is lost with the VM", corev1.RestartPolicyNever, func(w *world) {
			w.host.vanish()
			_ = os.RemoveAll(filepath.Join(w.dir, "pods"))
		}, corev1.PodFailed, 137, "ContainerStatusUnknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, podtest.OnMac("a", c.policy))
			w.startAgent()
			w.awaitRunning("a")
			w.stopAgent()
			c.away(w)
			w.startAgent()
			if c.phase != "" {
				e := w.awaitPhase(c.phase).Status.ContainerStatuses[0].State.Terminated
				if e == nil || e.ExitCode != c.code || e.Reason != c.reason {
					t.Errorf("terminated: %+v", e)
				}
				if n := w.host.count("run"); n != 1 {
					t.Errorf("a Pod that must not be restarted was run %d times", n)
				}
				return
			}
			p := w.awaitPod("a", "was restarted", func(p *corev1.Pod) bool {
				return p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].Ready
			})
			e := p.Status.ContainerStatuses[0].LastTerminationState.Terminated
			if e == nil || e.ExitCode != c.code || e.Reason != c.reason {
				t.Errorf("last state: %+v", e)
			}
		})
	}
}

func TestUnreadableCheckpointOfARunningVM(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.stopAgent()
	if err := os.WriteFile(filepath.Join(checkpoint.Store(filepath.Join(w.dir, "pods")).Dir("uid-a"), "record.json"), []byte("{torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.startAgent()
	w.await("the VM is adopted", func() bool { return slices.Contains(w.events.reasons("a"), "Adopted") })
	if n := w.host.count("run"); n != 1 {
		t.Errorf("the VM was run %d times", n)
	}
}

func TestVMOutlivesItsShim(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.host.orphan()
	w.stopAgent()
	w.startAgent()
	w.await("the VM is adopted", func() bool { return slices.Contains(w.events.reasons("a"), "Adopted") })
	w.host.vanish()
	e := w.awaitPhase(corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated
	if e.Reason != "ContainerStatusUnknown" {
		t.Errorf("terminated: %+v", e)
	}
}

func TestDeletedWhileTheAgentIsAway(t *testing.T) {
	for _, c := range []struct {
		name string
		away func(w *world)
	}{
		{"gracefully", func(w *world) { w.delete("a") }},
		{"by force", func(w *world) { w.forceDelete("a") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
			w.host.machines["somebody-else"] = true
			w.startAgent()
			w.awaitRunning("a")
			w.stopAgent()
			c.away(w)
			w.startAgent()
			w.awaitGone("a")
			w.await("only the foreign VM is left", func() bool { return cmp.Equal(w.host.names(), []string{"somebody-else"}) })
			if n := w.host.count("run"); n != 1 {
				t.Errorf("a deleted Pod was run %d times", n)
			}
		})
	}
}

func TestForeignVMsHoldASlotAndAreNeverTouched(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever), podtest.OnMac("b", corev1.RestartPolicyNever))
	w.host.machines["somebody-else"] = true
	w.host.machines["tkg-golden"] = false
	w.startAgent()
	w.await("one runs", func() bool { return w.host.count("run") == 1 })
	w.await("both are pulled", func() bool {
		return slices.Contains(w.events.reasons("a"), "Pulled") && slices.Contains(w.events.reasons("b"), "Pulled")
	})
	w.delete("a")
	w.delete("b")
	w.awaitGone("a")
	w.awaitGone("b")
	w.await("what is not ours is left", func() bool {
		return cmp.Equal(w.host.names(), []string{"somebody-else", "tkg-golden"})
	})
	if w.host.most > 2 {
		t.Errorf("%d VMs ran at once", w.host.most)
	}
}

func TestEndedPodIsLeftAloneByTheNextAgent(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	before := w.awaitPhase(corev1.PodSucceeded)
	w.stopAgent()
	s := w.startAgent()
	w.await("the Pod is known", func() bool { return s.has("uid-a") })
	w.delete("a")
	w.awaitGone("a")
	if n := w.host.count("run"); n != 1 {
		t.Errorf("an ended Pod was run %d times", n)
	}
	if last := w.phases.last("uid-a"); last != before.Status.Phase {
		t.Errorf("last phase %s, was %s", last, before.Status.Phase)
	}
}

// TestBackOffIsSaidAsAKubeletDoes, of a clone that is restarted as of a command in its guest.
func TestBackOffIsSaidAsAKubeletDoes(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true) // the second run is no long one
	w.host.exit("main", exited(1))
	w.awaitPod("a", "runs again", func(p *corev1.Pod) bool { return mainOf(p).RestartCount == 1 && mainOf(p).State.Running != nil })
	w.host.exit("main", exited(1))
	p := w.awaitWaiting("CrashLoopBackOff")
	if m := mainOf(p).State.Waiting.Message; m != "back-off 10s restarting failed container=vm pod=a_ns(uid-a)" {
		t.Errorf("message %q", m)
	}
	if !slices.Contains(w.events.all(), "a BackOff Back-off restarting failed container vm in pod a_ns(uid-a)") {
		t.Errorf("events %v", w.events.all())
	}
}
