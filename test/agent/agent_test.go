package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAgent is one story, as a control plane is dear: a Mac joins, runs a Pod,
// loses its agent twice, refuses what it cannot run, and does not come back once
// its Node was deleted.
func TestAgent(t *testing.T) {
	s := newStage(t)
	s.deliver("permit-1")
	s.startAgent()
	s.approve()
	s.awaitNode()

	s.createServiceAccount()
	s.create(s.pod("vm"))
	first := s.awaitRunning("vm")
	if got := first.Status.ContainerStatuses[0]; !strings.HasPrefix(got.ContainerID, "tart://tk-"+string(first.UID)) || !strings.HasPrefix(got.ImageID, "sha256:") {
		t.Errorf("container status %+v", got)
	}
	s.refuses()

	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		s.endAgent(sig)
		s.startAgent()
		adopted := "move=adopt"
		s.await("the VM is adopted", func() bool { return strings.Count(s.log.String(), adopted) > 0 })
		s.log.Reset()
	}
	again := s.awaitRunning("vm")
	if before, after := first.Status.ContainerStatuses[0], again.Status.ContainerStatuses[0]; before.ContainerID != after.ContainerID || after.RestartCount != 0 {
		t.Errorf("the VM did not outlive the agent: %+v, then %+v", before, after)
	}

	s.deletes("vm")
	s.nodeStaysAway()
}

func (s *stage) awaitNode() {
	s.t.Helper()
	s.await("the Node is Ready", func() bool {
		n, err := s.client.CoreV1().Nodes().Get(s.t.Context(), nodeName, metav1.GetOptions{})
		if err != nil || n.Spec.ProviderID != providerID {
			return false
		}
		found := map[corev1.NodeConditionType]corev1.ConditionStatus{}
		for _, c := range n.Status.Conditions {
			found[c.Type] = c.Status
		}
		return found[corev1.NodeReady] == corev1.ConditionTrue && found[corev1.NodeMemoryPressure] == corev1.ConditionFalse &&
			found[corev1.NodeDiskPressure] == corev1.ConditionFalse && found[corev1.NodePIDPressure] == corev1.ConditionFalse
	})
	s.await("the lease", func() bool {
		_, err := s.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(s.t.Context(), nodeName, metav1.GetOptions{})
		return err == nil
	})
}

// createServiceAccount waits for the default account: Pods are refused before.
func (s *stage) createServiceAccount() {
	s.t.Helper()
	s.await("the default service account", func() bool {
		_, err := s.client.CoreV1().ServiceAccounts("default").Get(s.t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
}

// pod is what people write; admission adds its token volume.
func (s *stage) pod(name string) *corev1.Pod {
	grace := int64(20)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{"kubernetes.io/os": "darwin"},
			TerminationGracePeriodSeconds: &grace,
			Tolerations:                   []corev1.Toleration{{Key: "tuist.dev/macos", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "vm", Image: image,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
				}},
			}},
		},
	}
}

func (s *stage) create(p *corev1.Pod) {
	s.t.Helper()
	if _, err := s.client.CoreV1().Pods("default").Create(s.t.Context(), p, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) awaitRunning(name string) *corev1.Pod {
	s.t.Helper()
	var p *corev1.Pod
	s.await("Pod "+name+" is Running", func() bool {
		var err error
		p, err = s.client.CoreV1().Pods("default").Get(s.t.Context(), name, metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready
	})
	return p
}

func (s *stage) refuses() {
	s.t.Helper()
	p := s.pod("two")
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: image})
	s.create(p)
	s.await("a Pod of two containers has failed", func() bool {
		p, err := s.client.CoreV1().Pods("default").Get(s.t.Context(), "two", metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodFailed && p.Status.Reason == "UnsupportedField" &&
			strings.Contains(p.Status.Message, "spec.containers")
	})
	s.await("an event about it", func() bool {
		list, err := s.client.CoreV1().Events("default").List(s.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=two,reason=UnsupportedField"})
		return err == nil && len(list.Items) == 1
	})
	s.deletes("two")
}

// deletes proves that a graceful deletion ends long before its grace period, with
// nothing left on the Mac.
func (s *stage) deletes(name string) {
	s.t.Helper()
	begin := time.Now()
	if err := s.client.CoreV1().Pods("default").Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.await("Pod "+name+" is gone", func() bool {
		_, err := s.client.CoreV1().Pods("default").Get(s.t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	s.t.Logf("Pod %s was gone after %s", name, time.Since(begin).Round(time.Millisecond))
	if name != "vm" {
		return
	}
	if left, err := os.ReadDir(filepath.Join(s.dir, "tart", "vms")); err != nil || len(left) > 0 {
		s.t.Errorf("left of the VM: %v, err %v", left, err)
	}
}

func (s *stage) nodeStaysAway() {
	s.t.Helper()
	nodes := s.client.CoreV1().Nodes()
	if err := nodes.Delete(s.t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	waits := "permit-1 was used before"
	s.await("the agent waits for another permit", func() bool { return strings.Contains(s.log.String(), waits) })
	s.endAgent(syscall.SIGTERM)
	s.log.Reset()
	s.startAgent()
	s.await("a new agent waits too", func() bool { return strings.Contains(s.log.String(), waits) })
	if _, err := nodes.Get(s.t.Context(), nodeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		s.t.Fatalf("a deleted Node came back: %v", err)
	}
	s.permit("permit-2")
	s.awaitNode()
}
