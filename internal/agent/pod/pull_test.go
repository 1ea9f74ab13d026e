package pod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

func TestAPodSaysThatItWaitsForAnotherPull(t *testing.T) {
	other := podtest.OnMac("b", corev1.RestartPolicyAlways)
	other.Spec.Containers[0].Image = "registry.test/macos/other:v1"
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.host.pullGate = make(chan struct{})
	w.startAgent()
	w.await("the first pull", func() bool {
		w.host.mu.Lock()
		defer w.host.mu.Unlock()
		return w.host.pulls == 1
	})
	w.create(other)
	const says = `image "registry.test/macos/other:v1" waits for the pull of "registry.test/macos/base:v1" from the same registry`
	w.awaitPod("b", "says what it waits for", func(p *corev1.Pod) bool {
		return waitingReason(p) == "ContainerCreating" && p.Status.ContainerStatuses[0].State.Waiting.Message == says
	})
	w.await("an event", func() bool {
		return strings.Contains(strings.Join(w.events.all(), "\n"), "b Pulling The pull of "+says)
	})
	close(w.host.pullGate)
	w.awaitRunning("a")
	w.awaitRunning("b")
	if strings.Contains(strings.Join(w.events.all(), "\n"), "a Pulling The pull of") {
		t.Error("the first waits for itself")
	}
}

// Images are large: who waits for one sees whether it comes.
func TestAPodSaysHowFarItsPullIs(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.host.pullGate = make(chan struct{})
	w.startAgent()
	w.await("the pull", func() bool {
		w.host.mu.Lock()
		defer w.host.mu.Unlock()
		return w.host.pulls == 1
	})
	w.frozen.Store(true)
	w.awaitPod("a", "says how far it is", func(p *corev1.Pod) bool {
		w.clock.Step(time.Minute) // the Pod may begin to wait for the minute only now
		if waitingReason(p) != "ContainerCreating" {
			return false
		}
		message := p.Status.ContainerStatuses[0].State.Waiting.Message
		return strings.HasPrefix(message, `image "registry.test/macos/base:v1" is being pulled: 0 % have come, and nothing for `) && strings.HasSuffix(message, " min")
	})
	w.frozen.Store(false)
	close(w.host.pullGate)
	w.awaitRunning("a")
}
