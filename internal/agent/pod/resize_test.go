package pod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// resize changes what the container asks for.
func (w *world) resize(name, memory string) {
	w.t.Helper()
	w.edit(name, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	})
}

// shows reports whether the status says that the Pod has so much, and whether it waits for
// more.
func shows(memory string, pending bool) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
		if len(p.Status.ContainerStatuses) != 1 || (i >= 0) != pending {
			return false
		}
		if pending && (p.Status.Conditions[i].Status != corev1.ConditionTrue || p.Status.Conditions[i].Reason != corev1.PodReasonInfeasible) {
			return false
		}
		s, want := p.Status.ContainerStatuses[0], resource.MustParse(memory)
		return s.AllocatedResources.Memory().Equal(want) && s.Resources.Requests.Memory().Equal(want)
	}
}

// A VM that runs keeps its size, and its status says so; the next one has what the Pod asks
// for by then.
func TestChangedResourcesCountFromTheNextStart(t *testing.T) {
	p := asking("a", "4Gi")
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	w := newWorld(t, p)
	w.startAgent()
	w.awaitRunning("a")
	w.awaitPod("a", "shows what it has", shows("4Gi", false))
	w.resize("a", "6Gi")
	w.awaitPod("a", "waits for its size", shows("4Gi", true))
	w.resize("a", "4Gi")
	w.awaitPod("a", "waits no more", shows("4Gi", false))
	w.resize("a", "6Gi")
	w.awaitPod("a", "waits for its size", shows("4Gi", true))
	// The next agent finds it so.
	w.stopAgent()
	w.startAgent()
	w.create(asking("b", "12Gi"))
	w.awaitRunning("b")
	w.delete("b")
	w.awaitGone("b")
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	w.awaitPod("a", "has its size", shows("6Gi", false))
	w.awaitRunning("a")
	if got := w.memoryOfVMs(); !slices.Equal(got, []int64{4 << 30, 12 << 30, 6 << 30}) {
		t.Errorf("VMs of %d bytes", got)
	}
}

// What the Mac does not have, alone or beside others, is not waited for.
func TestResourcesThatTheMacDoesNotHaveAreNotGiven(t *testing.T) {
	for name, more := range map[string]string{"more than there is": "64Gi", "more than others leave": "10Gi"} {
		t.Run(name, func(t *testing.T) {
			p := asking("a", "4Gi")
			p.Spec.RestartPolicy = corev1.RestartPolicyAlways
			w := newWorld(t, p)
			w.startAgent()
			w.awaitRunning("a")
			w.create(asking("b", "8Gi"))
			w.awaitRunning("b")
			w.resize("a", more)
			w.awaitPod("a", "waits for its size", shows("4Gi", true))
			w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
			w.awaitPod("a", "runs again", func(p *corev1.Pod) bool {
				s := p.Status.ContainerStatuses
				return shows("4Gi", true)(p) && s[0].RestartCount == 1 && s[0].State.Running != nil
			})
		})
	}
}
