package status

import (
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/kubetest"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

// written is a writer that has written once: the Pod runs and is Ready, in version 10 of its object.
func written(t *testing.T) (w *Writer, p *corev1.Pod, writes *atomic.Int32) {
	t.Helper()
	p = podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.ResourceVersion = "9"
	writes = &atomic.Int32{}
	client := fake.NewClientset(p)
	client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		answer := p.DeepCopy()
		answer.ResourceVersion = strconv.Itoa(9 + int(writes.Add(1)))
		return true, answer, nil
	})
	w = New(kubetest.Client(client), clock.RealClock{}, slog.New(slog.DiscardHandler), p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(t.Context())
	}()
	t.Cleanup(func() { <-done })
	begun := metav1.NewTime(time.Unix(1_700_000_000, 123))
	w.Set(corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &begun, HostIP: "10.0.0.7", HostIPs: []corev1.HostIP{{IP: "10.0.0.7"}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: begun}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "vm", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: begun}}}},
	})
	flush(t, w)
	// As the API server has it: in whole seconds, and with conditions of others.
	p = p.DeepCopy()
	p.ResourceVersion, p.Status = "10", w.Current()
	whole := metav1.NewTime(begun.Truncate(time.Second))
	p.Status.StartTime, p.Status.Conditions[0].LastTransitionTime, p.Status.ContainerStatuses[0].State.Running.StartedAt = &whole, whole, whole
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	return w, p, writes
}

func flush(t *testing.T, w *Writer) {
	t.Helper()
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func as(p *corev1.Pod, version string, edit func(*corev1.Pod)) *corev1.Pod {
	p = p.DeepCopy()
	p.ResourceVersion = version
	edit(p)
	return p
}

func notReady(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

// The node lifecycle controller writes that Pods are not Ready when the lease of their Node is late.
func TestWhatSomebodyElseWroteIsWrittenAgain(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Pod){
		"a condition":         notReady,
		"the phase":           func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
		"a container's state": func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			w, p, writes := written(t)
			w.Seen(as(p, "11", edit))
			flush(t, w)
			if n := writes.Load(); n != 2 {
				t.Errorf("the status was written %d times", n)
			}
		})
	}
}

func TestNothingIsWrittenAgainWithoutNeed(t *testing.T) {
	for name, seen := range map[string]func(*corev1.Pod) *corev1.Pod{
		"what was written": func(p *corev1.Pod) *corev1.Pod { return as(p, "12", func(*corev1.Pod) {}) },
		"a condition of others": func(p *corev1.Pod) *corev1.Pod {
			return as(p, "12", func(p *corev1.Pod) { p.Status.Conditions[1].Reason = "New" })
		},
		"an older write":   func(p *corev1.Pod) *corev1.Pod { return as(p, "9", notReady) },
		"the write itself": func(p *corev1.Pod) *corev1.Pod { return as(p, "10", notReady) },
		"no version":       func(p *corev1.Pod) *corev1.Pod { return as(p, "", notReady) },
		"an end of somebody else's": func(p *corev1.Pod) *corev1.Pod {
			return as(p, "12", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, p, writes := written(t)
			w.Seen(seen(p))
			flush(t, w)
			if n := writes.Load(); n != 1 {
				t.Errorf("the status was written %d times", n)
			}
		})
	}
}

// A write of somebody else's may be seen before the answer to the own one that it came after.
func TestWhatWasSeenDuringAWriteIsLookedAtAfterwards(t *testing.T) {
	w, p, writes := written(t)
	w.mu.Lock()
	w.set++ // a write is under way
	w.mu.Unlock()
	w.Seen(as(p, "12", notReady))
	w.mu.Lock()
	w.notify()
	w.mu.Unlock()
	flush(t, w)
	if n := writes.Load(); n != 3 {
		t.Errorf("the status was written %d times", n)
	}
}
