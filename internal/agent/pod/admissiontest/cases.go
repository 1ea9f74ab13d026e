// Package admissiontest lists Pods and what a Mac cannot honour of them. The agent's
// admission and the chart's admission policy are held to the same list.
package admissiontest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Case is a Pod that the API server takes, in what it differs from New.
type Case struct {
	Name string
	Edit func(p *corev1.Pod, c *corev1.Container)
	// Fields cannot be honoured: paths without indices.
	Fields []string
	// AgentOnly: what is wrong with it takes more than the names and values of single
	// fields, and the policy leaves it to the agent.
	AgentOnly bool
}

// New is a Pod with nothing that a Mac cannot honour, which selects Macs.
func New() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "case-", Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelOSStable: "darwin"},
			Containers:   []corev1.Container{{Name: "vm", Image: "registry.test/macos/base:v1"}},
		},
	}
}

// Pod is the Pod of the case.
func (c Case) Pod() *corev1.Pod {
	p := New()
	c.Edit(p, &p.Spec.Containers[0])
	return p
}

// AnotherClass is a RuntimeClass that a case names. Its overhead is one CPU.
const AnotherClass = "another"

func of[T any](v T) *T { return &v }

func volume(name string, s corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: s}
}

func probe() *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
}

// Cases are what people write.
func Cases() []Case {
	return append(honoured(), append(ofPods(), append(ofContainers(), ofVolumes()...)...)...)
}

func ofPods() []Case {
	return []Case{
		{Name: "namespaces of the host", Edit: func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.HostNetwork, p.Spec.HostPID, p.Spec.HostIPC = true, true, true
		}, Fields: []string{"spec.hostNetwork", "spec.hostPID", "spec.hostIPC"}},
		{Name: "names and addresses of its own", Edit: func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.HostAliases, p.Spec.SetHostnameAsFQDN = []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"a"}}}, of(true)
			p.Spec.DNSPolicy, p.Spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"10.0.0.1"}}
		}, Fields: []string{"spec.setHostnameAsFQDN", "spec.hostAliases", "spec.dnsConfig", "spec.dnsPolicy"}},
		{Name: "users of the host, and its operating system", Edit: func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.HostUsers, p.Spec.OS = of(false), &corev1.PodOS{Name: corev1.Linux}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: of(int64(0)), FSGroup: of(int64(1))}
		}, Fields: []string{"spec.securityContext.runAsUser", "spec.securityContext.fsGroup", "spec.os.name", "spec.hostUsers"}},
		{Name: "another class", Edit: func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.RuntimeClassName, p.Spec.Overhead = of(AnotherClass), corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}, Fields: []string{"spec.runtimeClassName", "spec.overhead"}},
		{Name: "two containers, and all that is wrong with each", Edit: func(p *corev1.Pod, c *corev1.Container) {
			c.LivenessProbe = probe()
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
				Name: "b", Image: "x", Command: []string{"x"}, ImagePullPolicy: corev1.PullAlways, SecurityContext: &corev1.SecurityContext{Privileged: of(true)},
			})
		}, Fields: []string{
			"spec.containers[].livenessProbe", "spec.containers[].command", "spec.containers[].securityContext.privileged",
			"spec.containers[].image", "spec.containers[].imagePullPolicy",
		}},
		{Name: "a sidecar beside a machine, with a hook that no kubelet runs", Edit: func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.InitContainers = []corev1.Container{{
				Name: "sidecar", Image: c.Image, Command: []string{"x"}, RestartPolicy: of(corev1.ContainerRestartPolicyAlways),
				Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}},
			}}
		}, Fields: []string{"spec.containers[].command", "spec.initContainers[].lifecycle.preStop.tcpSocket"}},
		{Name: "two containers that ask for a guest each", Edit: func(p *corev1.Pod, c *corev1.Container) {
			c.Command, c.Resources.Limits = []string{"x"}, corev1.ResourceList{"macfleet.dev/macos-vm": resource.MustParse("1")}
			c.Resources.Requests = c.Resources.Limits
			beside := *c.DeepCopy()
			beside.Name = "b"
			p.Spec.Containers = append(p.Spec.Containers, beside)
		}, Fields: []string{"spec.containers"}, AgentOnly: true},
		{Name: "init containers that are none here", Edit: func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.InitContainers = []corev1.Container{
				{Name: "machine", Image: c.Image},
				{Name: "another", Image: "other", Command: []string{"x"}, ImagePullPolicy: corev1.PullAlways, SecurityContext: &corev1.SecurityContext{Privileged: of(true)}},
			}
		}, Fields: []string{
			"spec.initContainers[].command",
			"spec.initContainers[].securityContext.privileged", "spec.initContainers[].image", "spec.initContainers[].imagePullPolicy",
		}},
	}
}

func ofContainers() []Case {
	return []Case{
		{Name: "probes and hooks", Edit: func(_ *corev1.Pod, c *corev1.Container) {
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = probe(), probe(), probe()
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
		}, Fields: []string{
			"spec.containers[].livenessProbe", "spec.containers[].readinessProbe", "spec.containers[].startupProbe", "spec.containers[].lifecycle",
		}},
		{Name: "hooks of a command", Edit: func(_ *corev1.Pod, c *corev1.Container) {
			c.Command = []string{"x"}
			c.Lifecycle = &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}},
				PreStop:   &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}},
			}
		}, Fields: []string{"spec.containers[].lifecycle.preStop.tcpSocket"}},
		{Name: "another hook that no kubelet runs", Edit: func(_ *corev1.Pod, c *corev1.Container) {
			c.Command = []string{"x"}
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}}
		}, Fields: []string{"spec.containers[].lifecycle.postStart.tcpSocket"}},
		{Name: "a command's fields without one", Edit: func(_ *corev1.Pod, c *corev1.Container) {
			c.WorkingDir, c.TTY, c.Stdin, c.StdinOnce = "/tmp", true, true, true
		}, Fields: []string{"spec.containers[].workingDir", "spec.containers[].stdin", "spec.containers[].stdinOnce", "spec.containers[].tty"}},
		{Name: "privileges", Edit: func(_ *corev1.Pod, c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{
				Privileged: of(true), RunAsUser: of(int64(0)), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
			}
		}, Fields: []string{
			"spec.containers[].securityContext.privileged", "spec.containers[].securityContext.runAsUser",
			"spec.containers[].securityContext.capabilities.add", "spec.containers[].securityContext.seccompProfile",
		}},
		{Name: "a port of the host", Edit: func(_ *corev1.Pod, c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 22, HostPort: 2222}}
		}, Fields: []string{"spec.containers[].ports[].hostPort"}},
		{Name: "a resource nobody has here", Edit: func(_ *corev1.Pod, c *corev1.Container) {
			one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
			c.Resources = corev1.ResourceRequirements{Limits: one, Requests: one}
		}, Fields: []string{"spec.containers[].resources.limits[nvidia.com/gpu]", "spec.containers[].resources.requests[nvidia.com/gpu]"}},
		{Name: "two guests", Edit: func(_ *corev1.Pod, c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{"macfleet.dev/macos-vm": resource.MustParse("2")}
			c.Resources.Requests = c.Resources.Limits
		}, Fields: []string{"spec.containers[].resources.limits[macfleet.dev/macos-vm]", "spec.containers[].resources.requests[macfleet.dev/macos-vm]"}},
	}
}

func ofVolumes() []Case {
	mounts := func(c *corev1.Container, m ...corev1.VolumeMount) { c.VolumeMounts = m }
	scratch := []corev1.Volume{volume("v", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})}
	return []Case{
		{Name: "volumes of other types", Edit: func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.Volumes = []corev1.Volume{
				volume("nfs", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}),
				volume("claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}),
				volume("socket", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x", Type: of(corev1.HostPathSocket)}}),
				volume("pages", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages}}),
			}
		}, Fields: []string{"spec.volumes[].nfs", "spec.volumes[].persistentVolumeClaim", "spec.volumes[].hostPath.type", "spec.volumes[].emptyDir.medium"}},
		{Name: "a mount's propagation", Edit: func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.Volumes = scratch
			mounts(c, corev1.VolumeMount{Name: "v", MountPath: "/opt/v", MountPropagation: of(corev1.MountPropagationHostToContainer)})
		}, Fields: []string{"spec.containers[].volumeMounts[].mountPropagation"}},
		{Name: "mounts inside one another", Edit: func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.Volumes = scratch
			mounts(c, corev1.VolumeMount{Name: "v", MountPath: "/opt/v"}, corev1.VolumeMount{Name: "v", MountPath: "/opt/v/w"})
		}, Fields: []string{"spec.containers[].volumeMounts[].mountPath"}, AgentOnly: true},
		{Name: "more memory than there is", Edit: func(p *corev1.Pod, _ *corev1.Container) {
			inMemory := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}
			p.Spec.Volumes = []corev1.Volume{volume("a", inMemory), volume("b", inMemory)}
		}, Fields: []string{"spec.volumes"}, AgentOnly: true},
	}
}
