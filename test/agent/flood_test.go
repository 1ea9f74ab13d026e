package agent

import (
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// floodReplicas are far more than a Mac has places.
const floodReplicas = 20

// refusesWithoutAFlood: a ReplicaSet makes another Pod for each that failed, at once
// and without end. Its refused Pods wait, so that each costs one Pod, one status and
// one event, and none after a restart of the agent.
func refusesWithoutAFlood(s *scene) {
	s.join()
	set := s.createSet(s.mac.Pod("", func(p *corev1.Pod) {
		p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	}))
	s.await("all Pods wait", func() bool {
		waiting := 0
		for _, p := range s.podsOf(set) {
			if len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].State.Waiting == nil {
				continue
			}
			w := p.Status.ContainerStatuses[0].State.Waiting
			if w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, "livenessProbe") && strings.Contains(w.Message, "privileged") {
				waiting++
			}
		}
		return waiting == floodReplicas
	})
	restarted := time.Now()
	s.restartAgent(syscall.SIGTERM)
	// Whatever the agent does with the Pods it found, it has done once this one has failed.
	last := s.create("last", stage.Restarts(corev1.RestartPolicyNever), func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	s.awaitPod("has failed", last, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if n := len(s.podsOf(set)); n != floodReplicas {
		s.Errorf("%d Pods for %d replicas", n, floodReplicas)
	}
	if n := s.statusWrites(set.Name, s.begin); n > floodReplicas {
		s.Errorf("%d writes of their statuses for %d Pods", n, floodReplicas)
	}
	if n := s.statusWrites(set.Name, restarted); n > 0 {
		s.Errorf("%d writes of their statuses after the agent's restart", n)
	}
	if n := s.runsOf(""); n != 0 {
		s.Errorf("%d machines were run", n)
	}
	s.must(s.plane.Client.AppsV1().ReplicaSets(set.Namespace).Delete(s.Context(), set.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
	}))
	s.await("all Pods are gone", func() bool { return len(s.podsOf(set)) == 0 })
	s.clear()
}

// createSet makes a ReplicaSet of the Pod, whose names begin with those of the Mac.
func (s *scene) createSet(p *corev1.Pod) *appsv1.ReplicaSet {
	s.Helper()
	labels := map[string]string{"set": s.name("set")}
	set, err := s.plane.Client.AppsV1().ReplicaSets(metav1.NamespaceDefault).Create(s.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: s.name("set")},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(int32(floodReplicas)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: p.Spec},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	return set
}

func (s *scene) podsOf(set *appsv1.ReplicaSet) []corev1.Pod {
	s.Helper()
	list, err := s.plane.Client.CoreV1().Pods(set.Namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "set=" + set.Name})
	s.must(err)
	return list.Items
}

// statusWrites counts how often the Mac wrote a status of the set's Pods.
func (s *scene) statusWrites(set string, since time.Time) int {
	s.Helper()
	requests, err := s.plane.NodeRequests(since)
	s.must(err)
	n := 0
	for _, r := range requests {
		if r.What() == "patch pods/status" && strings.HasPrefix(r.Object.Name, set+"-") {
			n++
		}
	}
	return n
}
