package stage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Image is one that the simulated registry has.
const Image = "registry.test/macos/base:v1"

// Pod is the least that runs on a Mac, and is already bound to this one: a machine
// that lives until it is deleted.
func (m *Mac) Pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	grace, mount := int64(20), false
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			NodeName:                      m.Name,
			AutomountServiceAccountToken:  &mount,
			TerminationGracePeriodSeconds: &grace,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "main", Image: Image,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
				}},
			}},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// Runs makes the main container run a shell script in the guest.
func Runs(script string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"/bin/sh", "-c", script} }
}

// Restarts sets the restart policy.
func Restarts(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

// Grace sets the termination grace period in seconds.
func Grace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// Before adds an init container that runs a shell script.
func Before(name, script string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
			Name: name, Image: p.Spec.Containers[0].Image, Command: []string{"/bin/sh", "-c", script},
		})
	}
}

// Sidecar adds an init container that runs a shell script beside all that come after it.
func Sidecar(name, script string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		Before(name, script)(p)
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers[len(p.Spec.InitContainers)-1].RestartPolicy = &always
	}
}

// Beside adds a container that runs a shell script beside the main one.
func Beside(name, script string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: name, Image: p.Spec.Containers[0].Image, Command: []string{"/bin/sh", "-c", script},
		})
	}
}

// Mounts adds a volume, and a mount of it to the main container.
func Mounts(name, path string, source corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
	}
}
