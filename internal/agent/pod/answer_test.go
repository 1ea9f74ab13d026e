package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/shim"
)

func bootsButRuns(p *corev1.Pod) bool {
	s := p.Status.ContainerStatuses
	return len(s) == 1 && s[0].State.Running != nil && !s[0].Ready && state.ConditionOf(p.Status.Conditions, corev1.PodReady) == corev1.ConditionFalse
}

// A guest that boots serves nobody: without a probe, Ready is that its agent answers.
func TestAVMIsReadyOnceItsGuestAgentAnswers(t *testing.T) {
	token := podtest.OnMac("a", corev1.RestartPolicyAlways)
	token.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-x", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}}
	for name, p := range map[string]*corev1.Pod{"bare": podtest.OnMac("a", corev1.RestartPolicyAlways), "with a token": token} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, p)
			w.host.guests.boots = true
			w.frozen.Store(true) // a busy machine takes nothing from the wait
			w.startAgent()
			w.awaitPod("a", "runs and boots", bootsButRuns)
			w.awaitCommand(state.AnswerID)
			w.frozen.Store(false)
			if d := w.host.given(state.AnswerID).Timeout; d > answerTimeout || d < answerTimeout-time.Minute {
				t.Errorf("the agent is waited for %s", d)
			}
			w.host.exit(state.AnswerID, exited(0))
			w.awaitRunning("a")
			w.stopAgent()
			w.startAgent()
			w.awaitRunning("a")
		})
	}
}

// An image without a guest agent is ready all the same.
func TestAVMWithoutAGuestAgentIsReadyInTheEnd(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.host.guests.boots = true
	w.startAgent()
	w.awaitPod("a", "runs and boots", bootsButRuns)
	w.awaitCommand(state.AnswerID)
	w.stopAgent()
	w.startAgent()
	w.awaitPod("a", "boots still", bootsButRuns)
	w.host.mu.Lock()
	w.host.guests.noAgent = true
	w.host.mu.Unlock()
	w.host.exit(state.AnswerID, shim.CommandEnd{Outcome: shim.Unreachable})
	w.awaitRunning("a")
}

// Also where the agent was restarted before it had seen the VM run.
func TestAVMThatStartedWithoutTheAgentIsReadyOnceItAnswers(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.host.guests.boots, w.host.lockless = true, true
	w.frozen.Store(true)
	w.startAgent()
	w.await("the VM starts", func() bool { return w.host.count("run") == 1 })
	w.stopAgent()
	w.host.mu.Lock()
	w.host.lockless, w.host.machines["tk-uid-a-0"] = false, true
	w.host.mu.Unlock()
	w.startAgent()
	w.awaitPod("a", "runs", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	})
	w.awaitCommand(state.AnswerID)
	if p := w.pod("a"); !bootsButRuns(p) {
		t.Errorf("it is ready before it has booted: %+v", p.Status)
	}
	w.host.exit(state.AnswerID, exited(0))
	w.awaitRunning("a")
	w.frozen.Store(false)
}
