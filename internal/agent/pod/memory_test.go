package pod

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// asking is a Pod that requests memory, on a Mac that has 16Gi.
func asking(name, memory string) *corev1.Pod {
	p := podtest.OnMac(name, corev1.RestartPolicyNever)
	if memory != "" {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return p
}

func (w *world) memoryOfVMs() []int64 {
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	return slices.Clone(w.host.memory)
}

func TestPodsThatDoNotFitTogetherAreRefused(t *testing.T) {
	w := newWorld(t, asking("b", "14Gi"))
	w.startAgent()
	w.awaitRunning("b")
	w.create(asking("a", "14Gi"))
	p := w.awaitPhase(corev1.PodFailed)
	if p.Status.Reason != "OutOfmemory" || p.Status.Message != "Node didn't have enough resource: memory, requested: 15032385536, used: 15032385536, capacity: 17179869184" {
		t.Errorf("%s: %s", p.Status.Reason, p.Status.Message)
	}
}

func TestAPodWithoutRequestsWaitsForRoom(t *testing.T) {
	w := newWorld(t, asking("b", "14Gi"))
	w.startAgent()
	w.awaitRunning("b")
	w.create(asking("a", ""))
	w.awaitPod("a", "says what it waits for", waitsForMemory)
	if n := w.host.count("create"); n != 1 {
		t.Errorf("%d VMs", n)
	}
	w.host.end("tk-uid-b-0", vm.RunEnd{}, "end")
	w.awaitRunning("a")
}

func TestAPodWithoutRequestsGetsWhatIsLeft(t *testing.T) {
	w := newWorld(t, asking("b", "11Gi"))
	w.startAgent()
	w.awaitRunning("b")
	w.create(asking("a", ""))
	w.awaitRunning("a")
	if got := w.memoryOfVMs(); !slices.Equal(got, []int64{11 << 30, 5 << 30}) {
		t.Errorf("VMs of %d bytes", got)
	}
}

// A VM gets its image's minimum, whatever the Pod requests; then others do not have that.
func TestAVMHoldsWhatItsImageNeeds(t *testing.T) {
	w := newWorld(t, asking("b", "2Gi"))
	w.host.leastMemory = 12 << 30
	w.startAgent()
	w.awaitRunning("b")
	w.create(asking("a", "8Gi"))
	p := w.awaitPod("a", "waits for memory", func(p *corev1.Pod) bool { return waitsFor(p, "12288 MiB of memory") })
	if said := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(said, "12288 of 16384 MiB") {
		t.Error(said)
	}
	w.host.end("tk-uid-b-0", vm.RunEnd{}, "end")
	w.awaitRunning("a")
	if got := w.memoryOfVMs(); !slices.Equal(got, []int64{12 << 30, 12 << 30}) {
		t.Errorf("VMs of %d bytes", got)
	}
}

// classed is a Pod of a class with an overhead of 1Gi.
func classed(name, memory string) *corev1.Pod {
	p := asking(name, memory)
	p.Spec.RuntimeClassName, p.Spec.Overhead = new("macos"), corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	return p
}

// The overhead of a Pod's class is counted beside its VM, and given to no VM.
func TestTheOverheadOfAClassIsNoVMs(t *testing.T) {
	w := newWorld(t, classed("b", "9Gi"))
	w.startAgent()
	w.awaitRunning("b")
	w.create(classed("a", ""))
	w.awaitRunning("a")
	if got := w.memoryOfVMs(); !slices.Equal(got, []int64{9 << 30, 5 << 30}) {
		t.Errorf("VMs of %d bytes", got)
	}
	w.create(asking("c", "6Gi"))
	p := w.awaitPod("c", "is refused", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if want := "Node didn't have enough resource: memory, requested: 6442450944, used: 11811160064, capacity: 17179869184"; p.Status.Message != want {
		t.Errorf("%s: %s", p.Status.Reason, p.Status.Message)
	}
}

func TestTheOverheadOfAPodThatRunsIsCountedByTheNextAgent(t *testing.T) {
	limited := classed("b", "2Gi")
	limited.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("14Gi")}
	w := newWorld(t, limited)
	w.startAgent()
	w.awaitRunning("b")
	w.stopAgent()
	w.startAgent()
	w.create(asking("a", ""))
	p := w.awaitPod("a", "waits for memory", waitsForMemory)
	if said := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(said, "15360 of 16384 MiB") {
		t.Error(said)
	}
}

// A Pod that waits for memory holds no slot, which the one that was promised the memory may
// wait for.
func TestAPodThatWaitsForMemoryHoldsNoSlot(t *testing.T) {
	w := newWorld(t, asking("b", "2Gi"))
	w.startAgent()
	w.awaitRunning("b")
	promised, pulled := asking("c", "12Gi"), make(chan struct{})
	promised.Spec.Containers[0].Image = "ghcr.io/ci/another:1"
	w.host.mu.Lock()
	pulls := w.host.pulls
	w.host.pullGate = pulled
	w.host.mu.Unlock()
	w.create(promised)
	w.await("its image is pulled", func() bool {
		w.host.mu.Lock()
		defer w.host.mu.Unlock()
		return w.host.pulls > pulls
	})
	w.create(asking("a", ""))
	w.awaitPod("a", "waits for memory", waitsForMemory)
	close(pulled)
	w.awaitRunning("c")
}

func waitsForMemory(p *corev1.Pod) bool { return waitsFor(p, "4096 MiB of memory") }

func waitsFor(p *corev1.Pod, what string) bool {
	s := p.Status.ContainerStatuses
	return len(s) == 1 && s[0].State.Waiting != nil && strings.Contains(s[0].State.Waiting.Message, what)
}

// A Pod that runs is not refused for one that came later, in whatever order they are
// listed.
func TestPodsThatRunStayAdmitted(t *testing.T) {
	w := newWorld(t, asking("b", "14Gi"))
	w.startAgent()
	w.awaitRunning("b")
	w.stopAgent()
	for _, name := range []string{"a", "c"} {
		w.create(asking(name, "4Gi"))
	}
	w.startAgent()
	w.awaitPhase(corev1.PodFailed)
	w.awaitPod("c", "is refused", func(p *corev1.Pod) bool { return p.Status.Reason == "OutOfmemory" })
	if p := w.pod("b"); p.Status.Phase != corev1.PodRunning || w.host.count("stop") != 0 {
		t.Errorf("the Pod that ran is %s", p.Status.Phase)
	}
}

// Memory is another Pod's once its VM is gone, and not before.
func TestAPodThatEndsHoldsItsMemory(t *testing.T) {
	w := newWorld(t, asking("a", "14Gi"))
	w.host.stopGate = make(chan struct{})
	w.startAgent()
	w.awaitRunning("a")
	w.deleteWithin(360000)
	w.await("its VM is stopped", func() bool {
		w.host.mu.Lock()
		defer w.host.mu.Unlock()
		return len(w.host.graces) > 0
	})
	w.create(asking("b", ""))
	w.awaitPod("b", "waits", waitsForMemory)
	close(w.host.stopGate)
	w.awaitRunning("b")
}

// That holds for the next agent as well: it finds a VM that shuts down, and a Pod that came
// meanwhile.
func TestAPodThatEndsHoldsItsMemoryForTheNextAgent(t *testing.T) {
	w := newWorld(t, asking("a", "14Gi"))
	w.host.stopGate = make(chan struct{})
	w.startAgent()
	w.awaitRunning("a")
	w.deleteWithin(360000)
	w.await("its VM is stopped", func() bool { return w.host.stops() > 0 })
	w.stopAgent()
	w.create(asking("b", ""))
	w.startAgent()
	b := w.awaitPod("b", "waits or runs", func(p *corev1.Pod) bool { return waitsForMemory(p) || p.Status.Phase == corev1.PodRunning })
	if !waitsForMemory(b) {
		t.Error("it runs beside a VM that has its memory")
	}
	close(w.host.stopGate)
	w.awaitRunning("b")
}
