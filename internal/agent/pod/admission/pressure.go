package admission

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// systemCritical is the priority of the class system-cluster-critical; that of
// system-node-critical is higher.
const systemCritical = 2_000_000_000

// Critical reports a Pod that runs whatever its Node is short of.
func Critical(p *corev1.Pod) bool { return corev1helpers.PodPriority(p) >= systemCritical }

// refuseUnderPressure uses the reason and the message of a kubelet. A host that is short
// of memory alone takes all Pods that say how much they need, and those that tolerate it.
func (h Host) refuseUnderPressure(p *corev1.Pod) *state.Failure {
	if h.Pressures == nil {
		return nil
	}
	found := h.Pressures()
	if len(found) == 0 || Critical(p) {
		return nil
	}
	memoryAlone := slices.Equal(found, []corev1.NodeConditionType{corev1.NodeMemoryPressure})
	if memoryAlone && (p.Status.QOSClass != corev1.PodQOSBestEffort || toleratesMemoryPressure(p)) {
		return nil
	}
	return &state.Failure{Reason: state.ReasonEvicted, Message: fmt.Sprintf("The node had condition: %v. ", found)}
}

func toleratesMemoryPressure(p *corev1.Pod) bool {
	taint := corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}
	return corev1helpers.TolerationsTolerateTaint(klog.Background(), p.Spec.Tolerations, &taint, true)
}
