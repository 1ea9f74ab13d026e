package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A guest's address is no Pod IP: those who would look for one are told, once.
func TestAPodThatWouldBeReachedByItsIPIsTold(t *testing.T) {
	ports := podtest.OnMac("ports", corev1.RestartPolicyAlways)
	ports.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
	asks := podtest.OnMac("asks", corev1.RestartPolicyAlways)
	asks.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIPs"}}}}
	for _, p := range []*corev1.Pod{ports, asks} {
		w := newWorld(t, p)
		w.startAgent()
		w.awaitRunning(p.Name)
		w.await("the Pod is told", func() bool { return w.events.count(p.Name, "NoPodIP") == 1 })
		w.host.end("tk-uid-"+p.Name+"-0", vm.RunEnd{}, "end")
		w.awaitPod(p.Name, "runs again", func(p *corev1.Pod) bool {
			s := p.Status.ContainerStatuses
			return len(s) == 1 && s[0].RestartCount == 1 && s[0].State.Running != nil
		})
		w.await("its second start", func() bool { return w.events.count(p.Name, "Started") == 2 })
		if n := w.events.count(p.Name, "NoPodIP"); n != 1 {
			t.Errorf("%s: told %d times", p.Name, n)
		}
		if got := w.pod(p.Name).Status; got.PodIP != "" || len(got.PodIPs) != 0 {
			t.Errorf("%s: IPs %q, %v", p.Name, got.PodIP, got.PodIPs)
		}
	}
}
