package admission

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// Waits reports that a refused Pod waits instead of failing. With restartPolicy Always
// its controller would replace a failed one at once, without end; no Mac is better
// for it.
func Waits(p *corev1.Pod, no *state.Failure) bool {
	return no.Reason == state.ReasonUnsupported && p.Spec.RestartPolicy == corev1.RestartPolicyAlways
}

// RecreatedAtOnce reports that the Pod's controller counts no failures, as a Job's does.
func RecreatedAtOnce(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind != "Job"
}

// RecreatedElsewhere reports that the Pod's controller makes another Pod for one that has
// failed, which may come to any Node. A Job may count the failure as its last, and a
// DaemonSet's Pod comes back to this Node: theirs wait on, as do those of nobody.
func RecreatedElsewhere(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind != "Job" && owner.Kind != "DaemonSet"
}
