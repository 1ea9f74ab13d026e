// Package podtest has Pods for tests.
package podtest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OnMac is a Pod on the Node mac-1 whose VM is its container.
func OnMac(name string, policy corev1.RestartPolicy) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec: corev1.PodSpec{
			NodeName: "mac-1", RestartPolicy: policy, DNSPolicy: corev1.DNSClusterFirst,
			Containers: []corev1.Container{{
				Name: "vm", Image: "registry.test/macos/base:v1", ImagePullPolicy: corev1.PullIfNotPresent,
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodPending,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
		},
	}
}

// Job is a Pod with a command, and with init containers of the given names.
func Job(policy corev1.RestartPolicy, inits ...string) *corev1.Pod {
	p := OnMac("a", policy)
	p.Spec.Containers[0].Command = []string{"make", "test"}
	for _, name := range inits {
		c := *p.Spec.Containers[0].DeepCopy()
		c.Name, c.Command = name, []string{"prepare", name}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	return p
}

// Beside is p with containers of the given names beside the main one.
func Beside(p *corev1.Pod, names ...string) *corev1.Pod {
	for _, name := range names {
		c := *p.Spec.Containers[0].DeepCopy()
		c.Name, c.Command = name, []string{"serve", name}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// Sidecars is p with sidecars of the given names before all other containers.
func Sidecars(p *corev1.Pod, names ...string) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	var list []corev1.Container
	for _, name := range names {
		c := *p.Spec.Containers[0].DeepCopy()
		c.Name, c.Command, c.RestartPolicy = name, []string{"watch", name}, &always
		list = append(list, c)
	}
	p.Spec.InitContainers = append(list, p.Spec.InitContainers...)
	return p
}

// DeleteAt is what the API server does at a time of its own.
func DeleteAt(p *corev1.Pod, now time.Time) {
	grace := int64(30)
	end := metav1.NewTime(now.Add(time.Duration(grace) * time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &end, &grace
}

// Legacy is a Pod that the first system's agent runs, as it leaves it: the VM is
// named after the Pod, and a finalizer holds the object.
func Legacy(policy corev1.RestartPolicy) *corev1.Pod {
	p := OnMac("a", policy)
	p.Finalizers = []string{"tart-kubelet.tuist.dev/vm-cleanup"}
	p.Spec.Containers[0].Command = []string{"its image decides"}
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "vm", Ready: true, Image: "registry.test/other-words", ContainerID: "tart://ns-a",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Hour))}},
	}}
	return p
}
