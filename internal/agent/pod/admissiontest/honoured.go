package admissiontest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// honoured are Pods that set, together, every field that a Mac honours or that means
// nothing to it.
func honoured() []Case {
	return []Case{
		{Name: "what everybody writes", Edit: func(*corev1.Pod, *corev1.Container) {}},
		{Name: "what restricted namespaces ask for", Edit: func(p *corev1.Pod, c *corev1.Container) {
			seccomp := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: of(true), SeccompProfile: seccomp}
			c.SecurityContext = &corev1.SecurityContext{
				AllowPrivilegeEscalation: of(false), ReadOnlyRootFilesystem: of(false), ProcMount: of(corev1.DefaultProcMount), SeccompProfile: seccomp,
				RunAsNonRoot: of(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}
		}},
		{Name: "what is false", Edit: func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.ShareProcessNamespace, p.Spec.SetHostnameAsFQDN, p.Spec.HostUsers = of(false), of(false), of(true)
			c.SecurityContext = &corev1.SecurityContext{Privileged: of(false)}
		}},
		{Name: "how a Pod lives", Edit: lives},
		{Name: "where a Pod runs", Edit: placed},
		{Name: "the class that the chart brings, with its overhead", Edit: func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.RuntimeClassName, p.Spec.Overhead = of("macos"), corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")}
		}},
		{Name: "a Pod that has its node", Edit: func(p *corev1.Pod, _ *corev1.Container) { p.Spec.NodeName = "mac-1" }},
		{Name: "all that a command can have", Edit: func(p *corev1.Pod, c *corev1.Container) {
			init := corev1.Container{Name: "i", Image: c.Image}
			p.Spec.Volumes, p.Spec.ServiceAccountName = volumes(), "default"
			command(c)
			command(&init)
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
			p.Spec.InitContainers = []corev1.Container{init}
		}},
		{Name: "probes and hooks of a command", Edit: handlers},
		{Name: "containers beside one another, and a sidecar", Edit: func(p *corev1.Pod, c *corev1.Container) {
			handlers(p, c)
			beside, sidecar := *c.DeepCopy(), *c.DeepCopy()
			beside.Name, sidecar.Name, sidecar.RestartPolicy = "b", "s", of(corev1.ContainerRestartPolicyAlways)
			p.Spec.Containers, p.Spec.InitContainers = append(p.Spec.Containers, beside), []corev1.Container{sidecar}
		}},
		{Name: "commands as probe and hook", Edit: func(_ *corev1.Pod, c *corev1.Container) {
			c.Command, c.LivenessProbe = []string{"x"}, probe()
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: c.LivenessProbe.Exec}}
		}},
	}
}

func lives(p *corev1.Pod, _ *corev1.Container) {
	p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = of(int64(60)), of(int64(5))
	p.Spec.RestartPolicy, p.Spec.DNSPolicy = corev1.RestartPolicyOnFailure, corev1.DNSClusterFirst
	p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount, p.Spec.AutomountServiceAccountToken = "default", "default", of(true)
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}}
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/x"}}
	p.Spec.EnableServiceLinks, p.Spec.Hostname, p.Spec.Subdomain = of(true), "h", "s"
}

func placed(p *corev1.Pod, _ *corev1.Container) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	p.Spec.SchedulerName, p.Spec.SchedulingGates = "other", []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "tuist.dev/macos", Operator: corev1.TolerationOpExists}}
	p.Spec.PriorityClassName, p.Spec.Priority = "system-cluster-critical", of(int32(2000000000))
	p.Spec.PreemptionPolicy = of(corev1.PreemptLowerPriority)
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{},
	}}
}

// command is a container that is a command in the guest, with all that it may have.
func command(c *corev1.Container) {
	named := corev1.LocalObjectReference{Name: "n"}
	c.Command, c.Args, c.WorkingDir, c.TTY, c.Stdin, c.StdinOnce = []string{"sh"}, []string{"-c"}, "/tmp", true, true, true
	c.ImagePullPolicy, c.TerminationMessagePath, c.TerminationMessagePolicy = corev1.PullIfNotPresent, "/dev/x", corev1.TerminationMessageReadFile
	c.Ports = []corev1.ContainerPort{{Name: "ssh", ContainerPort: 22, Protocol: corev1.ProtocolTCP}}
	c.EnvFrom = []corev1.EnvFromSource{
		{Prefix: "P", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named}}, {ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named}},
	}
	c.Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	for name, from := range map[string]corev1.EnvVarSource{
		"F": {FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
		"R": {ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: c.Name, Resource: "limits.cpu"}},
		"C": {ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named, Key: "k"}},
		"S": {SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named, Key: "k"}},
	} {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, ValueFrom: &from})
	}
	c.Resources.Limits = corev1.ResourceList{
		"macfleet.dev/macos-vm": resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceEphemeralStorage: resource.MustParse("9Gi"),
	}
	c.Resources.Requests = c.Resources.Limits
	c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: of(true)}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "e", MountPath: "/opt/e", SubPath: "a/b"},
		{Name: "e", MountPath: "/opt/f", SubPathExpr: "$(A)/b"},
		{Name: "c", MountPath: "/opt/c", ReadOnly: true, RecursiveReadOnly: of(corev1.RecursiveReadOnlyIfPossible)},
	}
}

func volumes() []corev1.Volume {
	named := corev1.LocalObjectReference{Name: "n"}
	items := []corev1.DownwardAPIVolumeFile{{Path: "l", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}
	return []corev1.Volume{
		volume("e", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(1, "")}}),
		volume("c", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named, Optional: of(true)}}),
		volume("s", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: []corev1.KeyToPath{{Key: "k", Path: "p"}}}}),
		volume("h", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x", Type: of(corev1.HostPathDirectory)}}),
		volume("d", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}}),
		volume("p", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: named}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: items}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}},
		}}}),
	}
}

func handlers(_ *corev1.Pod, c *corev1.Container) {
	c.Args = []string{"x"}
	get := &corev1.HTTPGetAction{
		Host: "x.example", Path: "/x", Port: intstr.FromInt32(1), Scheme: corev1.URISchemeHTTPS, HTTPHeaders: []corev1.HTTPHeader{{Name: "A", Value: "b"}},
	}
	c.LivenessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: get}, TerminationGracePeriodSeconds: of(int64(3)),
		InitialDelaySeconds: 1, TimeoutSeconds: 1, PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1,
	}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}}
	c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}}
	c.Lifecycle = &corev1.Lifecycle{
		PostStart: &corev1.LifecycleHandler{HTTPGet: get},
		PreStop:   &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}},
	}
}
