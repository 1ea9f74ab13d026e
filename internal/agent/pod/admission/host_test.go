package admission

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

func aNode(labels map[string]string) func(context.Context) (*corev1.Node, error) {
	return func(context.Context) (*corev1.Node, error) {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1", Labels: labels}}, nil
	}
}

func affinity(key string, op corev1.NodeSelectorOperator, values ...string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}},
	}}}
}

func TestHostRefuses(t *testing.T) {
	host := Host{
		CPUs: 7, MilliCPUs: 7500, MemoryBytes: 14 << 30, StorageBytes: 100 << 30, MaxVMs: 2,
		Node: aNode(map[string]string{"kubernetes.io/os": "darwin", "zone": "a"}),
	}
	requests := func(name, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(value)}
		}
	}
	for _, c := range []struct {
		name string
		edit func(*corev1.Pod)
		want *state.Failure
	}{
		{"nothing special", func(*corev1.Pod) {}, nil},
		{"all there is", requests("cpu", "7500m"), nil},
		{"more CPUs", requests("cpu", "7501m"), &state.Failure{Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 7501, used: 0, capacity: 7500"}},
		{"absurdly many", requests("cpu", "1e30"), &state.Failure{Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 9223372036854775807, used: 0, capacity: 7500"}},
		{"more memory", requests("memory", "15Gi"), &state.Failure{Reason: "OutOfmemory", Message: "Node didn't have enough resource: memory, requested: 16106127360, used: 0, capacity: 15032385536"}},
		{"more disk", requests("ephemeral-storage", "1Ti"), &state.Failure{Reason: "OutOfephemeral-storage", Message: "Node didn't have enough resource: ephemeral-storage, requested: 1099511627776, used: 0, capacity: 107374182400"}},
		{"an init container's", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("9")}}}}
		}, &state.Failure{Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 7500"}},
		{"a limit above is only capped", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
				Limits: corev1.ResourceList{"cpu": resource.MustParse("64")}, Requests: corev1.ResourceList{"cpu": resource.MustParse("1")},
			}
		}, nil},
		{"no memory for its class", func(p *corev1.Pod) {
			requests("memory", "14Gi")(p)
			p.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")}
		}, &state.Failure{Reason: "OutOfmemory", Message: "Node didn't have enough resource: memory, requested: 15166603264, used: 0, capacity: 15032385536"}},
		{"a selector that matches", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} }, nil},
		{
			"a selector that does not", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "b"} },
			&state.Failure{Reason: "NodeAffinity", Message: "The Pod's node selector or required node affinity does not match the labels of node mac-1"},
		},
		{"an affinity that matches", func(p *corev1.Pod) { p.Spec.Affinity = affinity("zone", corev1.NodeSelectorOpIn, "a", "c") }, nil},
		{
			"an affinity that does not", func(p *corev1.Pod) { p.Spec.Affinity = affinity("zone", corev1.NodeSelectorOpDoesNotExist) },
			&state.Failure{Reason: "NodeAffinity", Message: "The Pod's node selector or required node affinity does not match the labels of node mac-1"},
		},
	} {
		p := podtest.OnMac("a", corev1.RestartPolicyAlways)
		p.Spec.NodeSelector, p.Spec.Affinity = nil, nil
		c.edit(p)
		if d := cmp.Diff(c.want, host.refuseOnNode(t.Context(), p)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestHostRefusesPodsThatDoNotTolerateNoExecute(t *testing.T) {
	gone := corev1.Taint{Key: "gone", Value: "yes", Effect: corev1.TaintEffectNoExecute}
	taints := []corev1.Taint{{Key: "new", Effect: corev1.TaintEffectNoSchedule}, gone}
	host := Host{CPUs: 7, MemoryBytes: 14 << 30, Node: func(ctx context.Context) (*corev1.Node, error) {
		node, err := aNode(nil)(ctx)
		node.Spec.Taints = taints
		return node, err
	}}
	for name, c := range map[string]struct {
		tolerations []corev1.Toleration
		refused     bool
	}{
		"none":             {nil, true},
		"of another key":   {[]corev1.Toleration{{Key: "new", Operator: corev1.TolerationOpExists}}, true},
		"of another value": {[]corev1.Toleration{{Key: "gone", Value: "no"}}, true},
		"of the taint":     {[]corev1.Toleration{{Key: "gone", Value: "yes", Effect: corev1.TaintEffectNoExecute}}, false},
		"of everything":    {[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, false},
	} {
		p := podtest.OnMac("a", corev1.RestartPolicyAlways)
		p.Spec.NodeSelector, p.Spec.Tolerations = nil, c.tolerations
		var want *state.Failure
		if c.refused {
			want = &state.Failure{Reason: "TaintToleration", Message: "Predicate TaintToleration failed: the Pod does not tolerate gone=yes:NoExecute of node mac-1"}
		}
		if d := cmp.Diff(want, host.Admit(t.Context(), p)); d != "" {
			t.Errorf("tolerations %s (-want +got):\n%s", name, d)
		}
	}
	// As with a kubelet, one that only keeps Pods from being scheduled does not matter any more.
	taints = taints[:1]
	p := podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.Spec.NodeSelector, p.Spec.Tolerations = nil, nil
	if no := host.Admit(t.Context(), p); no != nil {
		t.Errorf("refused: %+v", no)
	}
}

func TestHostCannotHonour(t *testing.T) {
	host := Host{HostPaths: []string{"/Volumes/cache"}}
	hostDir := func(path string) *corev1.Pod {
		p := podtest.OnMac("a", corev1.RestartPolicyAlways)
		p.Spec.Volumes = []corev1.Volume{volumeOf("v", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}})}
		return p
	}
	both := hostDir("/etc")
	both.Spec.HostNetwork = true
	const notAllowed = "This node does not allow spec.volumes[0].hostPath.path (/etc); it allows paths below: /Volumes/cache, as spec.pods.hostPaths of its MacNodeProfile says"
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"a hostPath that is allowed": {hostDir("/Volumes/cache/x"), ""},
		"a hostPath that is not":     {hostDir("/etc"), notAllowed},
		"a field, too":               {both, "This node runs a Pod as one macOS VM and cannot honour: spec.hostNetwork. " + remedy + ". " + notAllowed},
	} {
		if d := cmp.Diff(c.want, host.cannotHonour(c.pod)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestNodeThatCannotBeReadRefusesNothing(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.Spec.NodeSelector = map[string]string{"zone": "b"}
	away := func(context.Context) (*corev1.Node, error) { return nil, errors.New("away") }
	for _, h := range []Host{{CPUs: 1, MemoryBytes: 1 << 30}, {CPUs: 1, MemoryBytes: 1 << 30, Node: away}} {
		if r := h.refuseOnNode(t.Context(), p); r != nil {
			t.Errorf("refused: %+v", r)
		}
	}
}

func TestShapeOfPod(t *testing.T) {
	of := func(c corev1.Container) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	host := Host{CPUs: 7, MemoryBytes: 14<<30 + 5, MaxVMs: 2, StorageBytes: 200 << 30}
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
	disk := func(size string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(size)}
	}
	for _, c := range []struct {
		name             string
		limits, requests corev1.ResourceList
		want             vm.Shape
	}{
		{"a share", nil, nil, vm.Shape{CPUs: 3, MemoryBytes: 7 << 30}},
		{"limits first", list("4", "8Gi"), list("2", "4Gi"), vm.Shape{CPUs: 4, MemoryBytes: 8 << 30}},
		{"then requests", list("4", ""), list("2", "4Gi"), vm.Shape{CPUs: 4, MemoryBytes: 4 << 30}},
		{"whole CPUs up, whole mebibytes down", list("1500m", "1048577k"), nil, vm.Shape{CPUs: 2, MemoryBytes: 1000 << 20}},
		{"no more than there is", list("64", "1Ti"), nil, vm.Shape{CPUs: 7, MemoryBytes: 14 << 30}},
		{"absurdly much", list("1e18", "1e30"), nil, vm.Shape{CPUs: 7, MemoryBytes: 14 << 30}},
		{"absurdly little", list("1n", "1"), nil, vm.Shape{CPUs: 1, MemoryBytes: 1 << 20}},
		{"less than nothing", list("-1", "-1e30"), nil, vm.Shape{CPUs: 3, MemoryBytes: 7 << 30}},
		{"a disk", disk("80Gi"), disk("50Gi"), vm.Shape{CPUs: 3, MemoryBytes: 7 << 30, DiskBytes: 80 << 30}},
		{"a disk of absurd size", disk("1e40"), nil, vm.Shape{CPUs: 3, MemoryBytes: 7 << 30, DiskBytes: 200 << 30}},
	} {
		container := corev1.Container{Resources: corev1.ResourceRequirements{Limits: c.limits, Requests: c.requests}}
		if d := cmp.Diff(c.want, ShapeOf(of(container), host)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: list("6", "")}}},
		Containers:     []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: list("2", "4Gi")}}},
	}}
	if d := cmp.Diff(vm.Shape{CPUs: 6, MemoryBytes: 4 << 30}, ShapeOf(p, host)); d != "" {
		t.Errorf("an init container that needs more (-want +got):\n%s", d)
	}
	sized := func(cpu, memory string, sidecar bool) corev1.Container {
		c := corev1.Container{Resources: corev1.ResourceRequirements{Limits: list(cpu, memory), Requests: list(cpu, "1Gi")}}
		if always := corev1.ContainerRestartPolicyAlways; sidecar {
			c.RestartPolicy = &always
		}
		return c
	}
	p.Spec.Containers = []corev1.Container{sized("1", "2Gi", false), sized("2", "3Gi", false)}
	p.Spec.InitContainers = []corev1.Container{sized("1", "1Gi", true), sized("5", "1Gi", false), sized("1", "2Gi", true), sized("1", "1Gi", false)}
	if d := cmp.Diff(vm.Shape{CPUs: 6, MemoryBytes: 8 << 30}, ShapeOf(p, host)); d != "" {
		t.Errorf("containers at the same time (-want +got):\n%s", d)
	}
	if cpus, memory := Requests(p); cpus != 6000 || memory != 4<<30 {
		t.Errorf("they request %d thousandths of CPUs and %d bytes", cpus, memory)
	}
	for image, want := range map[int64][2]int64{0: {4 << 30, 8 << 30}, 6 << 30: {6 << 30, 8 << 30}, 10 << 30: {10 << 30, 10 << 30}, 1 << 40: {host.MemoryBytes, host.MemoryBytes}} {
		if least, wanted := MemoryNeed(p, host, image); least != want[0] || wanted != want[1] {
			t.Errorf("their VM of an image with %d bytes at least needs %d bytes, and wants %d", image, least, wanted)
		}
	}
	if d := cmp.Diff(vm.Shape{CPUs: 1, MemoryBytes: 1 << 20}, ShapeOf(of(corev1.Container{}), Host{})); d != "" {
		t.Errorf("a host that tells nothing (-want +got):\n%s", d)
	}
}
