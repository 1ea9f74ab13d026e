package pod

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

const nextImage = "registry.test/macos/base:v2"

func toNextImage(p *corev1.Pod) {
	p.Generation++
	p.Spec.Containers[0].Image = nextImage
	for i := range p.Spec.InitContainers {
		p.Spec.InitContainers[i].Image = nextImage
	}
}

// Another image is another machine at once, whatever the policy, as with a kubelet.
func TestAChangedImageReplacesTheVM(t *testing.T) {
	for name, p := range map[string]*corev1.Pod{
		"a command, Never":       podtest.Job(corev1.RestartPolicyNever),
		"with init, Never":       podtest.Job(corev1.RestartPolicyNever, "one"),
		"with init, OnFailure":   podtest.Job(corev1.RestartPolicyOnFailure, "one"),
		"a VM, Always":           podtest.OnMac("a", corev1.RestartPolicyAlways),
		"changed while away, VM": podtest.OnMac("a", corev1.RestartPolicyNever),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, p)
			w.startAgent()
			w.awaitRunning("a")
			if strings.HasPrefix(name, "changed while away") {
				w.stopAgent()
				w.edit("a", toNextImage)
				w.startAgent()
			} else {
				w.edit("a", toNextImage)
			}
			got := w.awaitPod("a", "runs the other image", func(p *corev1.Pod) bool {
				s := p.Status.ContainerStatuses[0]
				return s.Ready && s.Image == nextImage
			})
			s := got.Status.ContainerStatuses[0]
			if s.RestartCount != 1 || s.LastTerminationState.Terminated == nil || got.Status.Phase != corev1.PodRunning {
				t.Errorf("phase %s, status %+v", got.Status.Phase, s)
			}
			if !slices.Contains(w.events.all(), "a Killing Container vm definition changed, will be restarted") {
				t.Errorf("events %v", w.events.all())
			}
			if w.events.count("a", "BackOff") != 0 {
				t.Error("the restart was held up")
			}
		})
	}
}

// What the node cannot honour is told of, and nothing is stopped for it.
func TestAnImageThatInitContainersDoNotShareIsRefused(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever, "one"))
	w.startAgent()
	w.awaitRunning("a")
	w.edit("a", func(p *corev1.Pod) {
		p.Generation++
		p.Spec.InitContainers[0].Image = nextImage
	})
	w.await("the user is told", func() bool { return w.events.count("a", state.ReasonUnsupported) == 1 })
	w.host.exit("main", exited(0))
	p := w.awaitPhase(corev1.PodSucceeded)
	if n := w.host.count("run"); n != 1 {
		t.Errorf("%d machines ran", n)
	}
	if image := p.Status.InitContainerStatuses[0].Image; image == nextImage {
		t.Errorf("the init container is said to run %s", image)
	}
}

// An image that cannot be pulled is not asked for any more once the Pod wants another.
func TestAnImageIsMendedWhileItIsPulled(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.host.pullErrs = []error{errors.New("no such image"), errors.New("no such image")}
	w.frozen.Store(true)
	w.startAgent()
	w.awaitWaiting("ErrImagePull")
	w.edit("a", toNextImage)
	w.frozen.Store(false)
	if p := w.awaitRunning("a"); p.Status.ContainerStatuses[0].Image != nextImage {
		t.Errorf("status %+v", p.Status.ContainerStatuses[0])
	}
}

// The back-off is that of one image: the corrected one does not wait it out.
func TestACorrectedImageIsPulledAtOnce(t *testing.T) {
	for reason, after := range map[string]time.Duration{"ErrImagePull": 0, "ImagePullBackOff": backOffShown} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
			w.host.pullErrs = slices.Repeat([]error{errors.New("no such image")}, 9)
			w.frozen.Store(true)
			w.startAgent()
			w.await("the back-off", func() bool {
				if waitingReason(w.pod("a")) == reason {
					return true
				}
				if waitingReason(w.pod("a")) == "ErrImagePull" {
					w.clock.Step(after / 10)
				}
				return false
			})
			gate := make(chan struct{})
			w.host.mu.Lock()
			w.host.pullGate, w.host.pullErrs = gate, nil
			w.host.mu.Unlock()
			w.edit("a", toNextImage)
			w.awaitWaiting("ContainerCreating") // it is being pulled: of a back-off nothing has passed
			w.frozen.Store(false)
			close(gate)
			if p := w.awaitRunning("a"); p.Status.ContainerStatuses[0].Image != nextImage {
				t.Errorf("status %+v", p.Status.ContainerStatuses[0])
			}
		})
	}
}

// So is that of an image whose command crashes.
func TestACorrectedImageWaitsOutNoCrashLoop(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true) // the second run is no long one
	w.host.exit("main", exited(1))
	w.awaitPod("a", "runs again", func(p *corev1.Pod) bool { return mainOf(p).RestartCount == 1 && mainOf(p).State.Running != nil })
	w.host.exit("main", exited(1))
	w.awaitWaiting("CrashLoopBackOff")
	w.edit("a", toNextImage)
	w.await("the VM is made anew", func() bool { return w.host.count("create tk-uid-a-2") == 1 })
	w.frozen.Store(false)
	w.awaitPod("a", "runs the other image", func(p *corev1.Pod) bool {
		return mainOf(p).Image == nextImage && mainOf(p).RestartCount == 2 && mainOf(p).State.Running != nil
	})
	w.frozen.Store(true)
	w.host.exit("main", exited(1))
	w.await("its first crash has no back-off", func() bool { return w.host.count("create tk-uid-a-3") == 1 })
	w.frozen.Store(false)
}

func TestWhatAPodWaitsForWhileItsGuestBoots(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.host.guests.boots = true
	w.startAgent()
	p := w.awaitPod("a", "has a VM", func(p *corev1.Pod) bool {
		return state.ConditionOf(p.Status.Conditions, corev1.PodReadyToStartContainers) == corev1.ConditionTrue
	})
	if s := p.Status.ContainerStatuses[0].State.Waiting; s == nil || !strings.Contains(s.Message, "the guest boots") {
		t.Errorf("waiting %+v", s)
	}
}
