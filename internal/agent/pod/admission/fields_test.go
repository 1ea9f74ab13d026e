package admission

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/macfleet/macfleet/internal/agent/pod/admissiontest"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

func TestUnsupported(t *testing.T) {
	yes, no, user := true, false, int64(501)
	defaultProc := corev1.DefaultProcMount
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
			c.VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-x7k2p", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
			c.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, ProcMount: &defaultProc}
			c.Ports = []corev1.ContainerPort{{ContainerPort: 22}}
			c.Resources.Limits = corev1.ResourceList{vmResource: resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("4")}
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU}}
		}, nil},
		{"all that is honoured", func(p *corev1.Pod, c *corev1.Container) {
			deadline := int64(60)
			p.Spec.ActiveDeadlineSeconds = &deadline
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}}
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}}
			p.Spec.OS = &corev1.PodOS{Name: "darwin"}
			p.Spec.HostUsers = &yes
			c.Command, c.Args, c.WorkingDir, c.TTY = []string{"sh"}, []string{"-c"}, "/tmp", true
			c.Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}}}
			c.EnvFrom = []corev1.EnvFromSource{{Prefix: "P", SecretRef: &corev1.SecretEnvSource{}}}
			p.Spec.Volumes = []corev1.Volume{
				volumeOf("e", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(1, "")}}),
				volumeOf("c", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Optional: &yes}}),
				volumeOf("s", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: []corev1.KeyToPath{{Key: "k", Path: "p"}}}}),
				volumeOf("d", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}),
				volumeOf("h", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}),
			}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "e", MountPath: "/e", SubPath: "a/b"}, {Name: "c", MountPath: "/c", ReadOnly: true}}
			p.Spec.InitContainers = []corev1.Container{{
				Name: "i", Image: c.Image, Args: []string{"x"}, WorkingDir: "/", VolumeMounts: []corev1.VolumeMount{{Name: "e", MountPath: "/e/", SubPath: "a/b"}},
			}}
		}, nil},
		{"a command's fields without one", func(_ *corev1.Pod, c *corev1.Container) {
			c.WorkingDir, c.TTY, c.Stdin, c.StdinOnce = "/tmp", true, true, true
		}, []string{"spec.containers[0].workingDir", "spec.containers[0].stdin", "spec.containers[0].stdinOnce", "spec.containers[0].tty"}},
		{"more containers than the agent holds", func(p *corev1.Pod, c *corev1.Container) {
			more := *c
			more.Command = []string{"x"}
			for range maxContainers {
				p.Spec.InitContainers = append(p.Spec.InitContainers, more)
			}
		}, []string{"spec.containers (65 with spec.initContainers, 64 at most)"}},
		{"environment from a file", func(_ *corev1.Pod, c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}}}
		}, []string{"spec.containers[0].env[1].valueFrom.fileKeyRef"}},
		{"probes and hooks", func(_ *corev1.Pod, c *corev1.Container) {
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = &corev1.Probe{}, &corev1.Probe{}, &corev1.Probe{}, &corev1.Lifecycle{}
		}, []string{
			"spec.containers[0].livenessProbe", "spec.containers[0].readinessProbe", "spec.containers[0].startupProbe", "spec.containers[0].lifecycle",
		}},
		{"init containers that are none here", func(p *corev1.Pod, c *corev1.Container) {
			always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
			p.Spec.InitContainers = []corev1.Container{
				{Name: "sometimes", Image: c.Image, Command: []string{"x"}, RestartPolicy: &never},
				{Name: "machine", Image: c.Image, RestartPolicy: &always},
				{Name: "another", Image: "other", Command: []string{"x"}, ImagePullPolicy: corev1.PullAlways, LivenessProbe: &corev1.Probe{}},
			}
		}, []string{
			"spec.containers[0].command (each of several containers needs one, they run in one VM)",
			"spec.initContainers[0].restartPolicy",
			"spec.initContainers[1].command (an init container needs one, it runs in the VM of the main container)",
			"spec.initContainers[2].livenessProbe",
			"spec.initContainers[2].image (it must be that of the main container, they share a VM)",
			"spec.initContainers[2].imagePullPolicy (it must be that of the main container, they share an image)",
		}},
		{"volumes of other types", func(p *corev1.Pod, _ *corev1.Container) {
			socket, trust := corev1.HostPathSocket, &corev1.ClusterTrustBundleProjection{}
			p.Spec.Volumes = []corev1.Volume{
				volumeOf("nfs", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}),
				volumeOf("claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}),
				volumeOf("pages", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages}}),
				volumeOf("socket", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x", Type: &socket}}),
				volumeOf("option", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x:ro"}}),
				volumeOf("trust", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{}, {ClusterTrustBundle: trust}}}}),
			}
		}, []string{
			"spec.volumes[0].nfs (volume nfs)", "spec.volumes[1].persistentVolumeClaim (volume claim)", "spec.volumes[2].emptyDir.medium (HugePages)",
			"spec.volumes[3].hostPath.type (Socket, only directories can be shared with a VM)",
			`spec.volumes[4].hostPath.path ("/x:ro": an absolute path without colons, commas and control characters can be shared with a VM)`,
			"spec.volumes[5].projected.sources[1].clusterTrustBundle",
		}},
		{"more memory than there is", func(p *corev1.Pod, _ *corev1.Container) {
			inMemory := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}
			p.Spec.Volumes = []corev1.Volume{volumeOf("a", inMemory), volumeOf("b", inMemory)}
		}, []string{"spec.volumes (emptyDirs of medium Memory hold 96 MiB together at most, and 64 MiB each where sizeLimit is not set)"}},
		{"mounts", func(_ *corev1.Pod, c *corev1.Container) {
			both := corev1.MountPropagationBidirectional
			c.VolumeMounts = []corev1.VolumeMount{
				{Name: "v", MountPath: "/a", SubPathExpr: "$(A)", MountPropagation: &both},
				{Name: "v", MountPath: "/a/b"},
				{Name: "v", MountPath: "/c", SubPath: "../x"},
				{Name: "v", MountPath: "/"},
			}
			c.VolumeDevices = []corev1.VolumeDevice{{}}
		}, []string{
			"spec.containers[0].volumeDevices",
			"spec.containers[0].volumeMounts[0].mountPropagation (Bidirectional)",
			"spec.containers[0].volumeMounts[1].mountPath (/a/b is at, in or around /a of spec.containers[0].volumeMounts[0])",
			`spec.containers[0].volumeMounts[2].subPath ("../x" leads out of the volume)`,
			`spec.containers[0].volumeMounts[3].mountPath (mount path "/" is the root of the guest)`,
		}},
		{"names and addresses of its own", func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "h", "s", &yes
			p.Spec.HostAliases = []corev1.HostAlias{{}}
		}, []string{"spec.hostAliases", "spec.setHostnameAsFQDN"}},
		{"what nobody has here", func(p *corev1.Pod, _ *corev1.Container) {
			class := "gvisor"
			p.Spec.RuntimeClassName, p.Spec.HostUsers, p.Spec.OS = &class, &no, &corev1.PodOS{Name: corev1.Linux}
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{}}
			p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("1")}
		}, []string{
			"spec.resourceClaims", "spec.runtimeClassName (gvisor, guests are of the class macos)", "spec.overhead",
			"spec.os.name (linux, guests are darwin)", "spec.hostUsers (false)",
		}},
		{"two containers, and all that is wrong with each", func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.HostNetwork = true
			c.LivenessProbe = &corev1.Probe{}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/"}}
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b", SecurityContext: &corev1.SecurityContext{Privileged: &yes}})
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: c.Image, Stdin: true}}
		}, []string{
			"spec.hostNetwork",
			"spec.containers[0].livenessProbe",
			"spec.containers[0].command (each of several containers needs one, they run in one VM)",
			"spec.containers[1].securityContext.privileged",
			"spec.containers[1].command (each of several containers needs one, they run in one VM)",
			"spec.containers[1].image (it must be that of the main container, they share a VM)",
			"spec.initContainers[0].command (an init container needs one, it runs in the VM of the main container)",
			`spec.containers[0].volumeMounts[0].mountPath (mount path "/" is the root of the guest)`,
		}},
		{"two guests for two containers", func(p *corev1.Pod, c *corev1.Container) {
			c.Command = []string{"x"}
			c.Resources.Limits = corev1.ResourceList{vmResource: resource.MustParse("1")}
			podtest.Beside(p, "b")
		}, []string{"spec.containers (2 of macfleet.dev/macos-vm together, a Pod is one VM)"}},
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
		{"resources that make no sense", func(_ *corev1.Pod, c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{vmResource: resource.MustParse("2"), "cpu": resource.MustParse("-1")}
			c.Resources.Claims = []corev1.ResourceClaim{{}}
		}, []string{
			"spec.containers[0].resources.claims", "spec.containers[0].resources.limits[cpu] (-1 is negative)",
			"spec.containers[0].resources.limits[macfleet.dev/macos-vm] (2, a Pod is one VM)",
		}},
		{"another DNS", func(p *corev1.Pod, _ *corev1.Container) {
			p.Spec.DNSPolicy, p.Spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{}
		}, []string{"spec.dnsConfig", "spec.dnsPolicy (None)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := podtest.OnMac("a", corev1.RestartPolicyAlways)
			c.edit(p, &p.Spec.Containers[0])
			if d := cmp.Diff(c.want, Unsupported(p)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func volumeOf(name string, s corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: s}
}

// TestUnsupportedOfThePolicysCases holds the agent to the list that the chart's policy is held to.
func TestUnsupportedOfThePolicysCases(t *testing.T) {
	index := regexp.MustCompile(`\[[0-9]+\]`)
	for _, c := range admissiontest.Cases() {
		var got []string
		for _, field := range Unsupported(c.Pod()) {
			name, _, _ := strings.Cut(field, " (")
			got = append(got, index.ReplaceAllString(name, "[]"))
		}
		if d := cmp.Diff(slices.Sorted(slices.Values(c.Fields)), slices.Sorted(slices.Values(got))); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.Name, d)
		}
	}
}
