package agent

import (
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// evictsWhenShort: of two Pods on a full disk the one goes that asked for none of it, with
// a kubelet's words; the other runs on. No more come while the Node says that it is short.
func evictsWhenShort(s *scene) {
	s.join()
	greedy := s.create("greedy", stage.Runs("echo busy; exec sleep 600"))
	asked := s.create("asked", stage.Runs("echo busy; exec sleep 600"), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}
	})
	s.awaitRunning(asked)
	container := s.awaitRunning(greedy).Spec.Containers[0].Name
	s.must(s.mac.SetFree(5 << 20))
	s.restartAgent(syscall.SIGTERM) // it looks at once then
	evicted := s.awaitPod("is evicted", greedy, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	s.must(s.mac.SetFree(140 << 20))
	if m := evicted.Status.Message; evicted.Status.Reason != "Evicted" || !strings.HasPrefix(m, "The node was low on resource: ephemeral-storage. Threshold quantity: ") ||
		!strings.Contains(m, ", available: 5Gi. Container "+container+" was using ") || !strings.HasSuffix(m, ", request is 0, has larger consumption of ephemeral-storage. ") {
		s.Errorf("reason %s, message %q", evicted.Status.Reason, m)
	}
	disrupted := corev1.PodCondition{}
	for _, c := range evicted.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			disrupted = c
		}
	}
	if disrupted.Status != corev1.ConditionTrue || disrupted.Reason != corev1.PodReasonTerminationByKubelet {
		s.Errorf("condition %+v", disrupted)
	}
	s.awaitEvent(greedy, "Evicted")
	late := s.create("late", stage.Runs("true"))
	refused := s.awaitPod("is refused", late, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if refused.Status.Reason != "Evicted" || refused.Status.Message != "The node had condition: [DiskPressure]. " {
		s.Errorf("%+v", refused.Status)
	}
	if c := condition(s.node(), corev1.NodeDiskPressure); c.Status != corev1.ConditionTrue {
		s.Errorf("condition %+v", c)
	}
	if now := s.get(asked); now == nil || now.Status.Phase != corev1.PodRunning || now.Status.ContainerStatuses[0].RestartCount != 0 {
		s.Errorf("the Pod that asked: %+v", now)
	}
	s.clear()
}
