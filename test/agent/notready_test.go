package agent

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// survivesNotReady: what the node lifecycle controller writes into the Pods of a Node whose
// lease is late is no lasting truth, and another address of the Mac is no end of all statuses.
func survivesNotReady(s *scene) {
	s.join()
	p := s.awaitRunning(s.create("late"))
	patch := `{"status":{"conditions":[{"type":"Ready","status":"False"}],"hostIP":"192.0.2.9","hostIPs":[{"$patch":"replace"},{"ip":"192.0.2.9"}]}}`
	marked, err := s.plane.Client.CoreV1().Pods(p.Namespace).Patch(s.Context(), p.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	s.must(err)
	if state.ConditionOf(marked.Status.Conditions, corev1.PodReady) != corev1.ConditionFalse {
		s.Errorf("not marked: %+v", marked.Status)
	}
	p = s.awaitPod("is Ready again", p, func(p *corev1.Pod) bool {
		return state.ConditionOf(p.Status.Conditions, corev1.PodReady) == corev1.ConditionTrue
	})
	if p.Status.HostIP != s.mac.Config.Host.Address || len(p.Status.HostIPs) != 1 {
		s.Errorf("addresses %s, %v", p.Status.HostIP, p.Status.HostIPs)
	}
	s.clear()
}
