package pod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func TestUnsupported(t *testing.T) {
	yes, no, user := true, false, int64(501)
	runtimeDefault := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	for _, c := range []struct {
		name string
		edit func(p *corev1.Pod, c *corev1.Container)
		want []string
	}{
		{"what everybody writes", func(*corev1.Pod, *corev1.Container) {}, nil},
		{"what admission adds", func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.EnableServiceLinks = &yes
			p.Spec.ServiceAccountName = "default"
			p.Spec.AutomountServiceAccountToken = &yes
			p.Spec.Tolerations = []corev1.Toleration{{Key: "tuist.dev/macos", Operator: corev1.TolerationOpExists}}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: runtimeDefault}
			p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-x7k2p", ReadOnly: true, MountPath: tokenMountPath}}
			c.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
			c.Ports = []corev1.ContainerPort{{ContainerPort: 22}}
			c.Resources.Limits = corev1.ResourceList{VMResource: resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("4")}
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU}}
		}, nil},
		{"command and args", func(_ *corev1.Pod, c *corev1.Container) {
			c.Command, c.Args = []string{"sh"}, []string{"-c"}
		}, []string{"spec.containers[0].command", "spec.containers[0].args"}},
		{"environment", func(_ *corev1.Pod, c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A"}}
			c.EnvFrom = []corev1.EnvFromSource{{}}
		}, []string{"spec.containers[0].envFrom", "spec.containers[0].env"}},
		{"probes and hooks", func(_ *corev1.Pod, c *corev1.Container) {
			c.LivenessProbe, c.ReadinessProbe, c.Lifecycle = &corev1.Probe{}, &corev1.Probe{}, &corev1.Lifecycle{}
		}, []string{"spec.containers[0].livenessProbe", "spec.containers[0].readinessProbe", "spec.containers[0].lifecycle"}},
		{"volumes", func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}, []string{"spec.volumes[0] (data)", "spec.containers[0].volumeMounts[0] (/data)"}},
		{"init containers", func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
		}, []string{"spec.initContainers"}},
		{"two containers", func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b"})
		}, []string{"spec.containers (2 containers, a VM is one)"}},
		{"the host's namespaces", func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.HostNetwork, p.Spec.HostPID, p.Spec.HostIPC = true, true, true
		}, []string{"spec.hostNetwork", "spec.hostPID", "spec.hostIPC"}},
		{"privileges", func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user}
			c.SecurityContext = &corev1.SecurityContext{Privileged: &yes, Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}
		}, []string{
			"spec.securityContext.runAsUser", "spec.containers[0].securityContext.privileged",
			"spec.containers[0].securityContext.capabilities.add",
		}},
		{"a port of the host", func(_ *corev1.Pod, c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 22, HostPort: 2222}}
		}, []string{"spec.containers[0].ports[0].hostPort"}},
		{"a resource nobody has here", func(_ *corev1.Pod, c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		}, []string{"spec.containers[0].resources.limits[nvidia.com/gpu]"}},
		{"a deadline", func(p *corev1.Pod, _ *corev1.Container) { p.Spec.ActiveDeadlineSeconds = &user }, []string{"spec.activeDeadlineSeconds"}},
		{"pull secrets", func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}}
		}, []string{"spec.imagePullSecrets"}},
		{"another DNS", func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.DNSPolicy, p.Spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{}
		}, []string{"spec.dnsConfig", "spec.dnsPolicy"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := onMac("a", corev1.RestartPolicyAlways)
			c.edit(p, &p.Spec.Containers[0])
			if d := cmp.Diff(c.want, Unsupported(p)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestShapeOf(t *testing.T) {
	host := Host{CPUs: 7, MemoryBytes: 14 << 30, MaxVMs: 2}
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	for _, c := range []struct {
		name             string
		limits, requests corev1.ResourceList
		want             vm.Shape
	}{
		{"a share", nil, nil, vm.Shape{CPUs: 3, MemoryBytes: 7 << 30}},
		{"limits first", list("4", "8Gi"), list("2", "4Gi"), vm.Shape{CPUs: 4, MemoryBytes: 8 << 30}},
		{"then requests", list("4", ""), list("2", "4Gi"), vm.Shape{CPUs: 4, MemoryBytes: 4 << 30}},
		{"whole CPUs", list("1500m", "4Gi"), nil, vm.Shape{CPUs: 2, MemoryBytes: 4 << 30}},
		{"no more than there is", list("64", "1Ti"), nil, vm.Shape{CPUs: 7, MemoryBytes: 14 << 30}},
	} {
		container := corev1.Container{Resources: corev1.ResourceRequirements{Limits: c.limits, Requests: c.requests}}
		if d := cmp.Diff(c.want, ShapeOf(container, host)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}
