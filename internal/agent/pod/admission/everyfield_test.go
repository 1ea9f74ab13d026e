package admission

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// knownFields is what the book says is honoured or has no effect, written down
// apart from the code: a field that is neither here nor named is ignored silently.
var knownFields = map[string]string{
	"PodSpec": "volumes initContainers containers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector " +
		"serviceAccountName serviceAccount automountServiceAccountToken nodeName securityContext imagePullSecrets affinity schedulerName tolerations " +
		"runtimeClassName overhead priorityClassName priority readinessGates enableServiceLinks preemptionPolicy topologySpreadConstraints schedulingGates schedulingGroup hostUsers hostname subdomain ephemeralContainers",
	"Container": "name image imagePullPolicy command args workingDir tty stdin stdinOnce ports env envFrom resources resizePolicy volumeMounts " +
		"terminationMessagePath terminationMessagePolicy securityContext lifecycle livenessProbe readinessProbe startupProbe",
	"Lifecycle":            "postStart preStop",
	"Probe":                "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds",
	"ProbeHandler":         "exec httpGet tcpSocket grpc",
	"HTTPGetAction":        "path port host scheme httpHeaders",
	"LifecycleHandler":     "exec httpGet sleep",
	"PodSecurityContext":   "seccompProfile runAsNonRoot",
	"SecurityContext":      "seccompProfile runAsNonRoot capabilities",
	"Capabilities":         "drop",
	"Volume":               "name emptyDir configMap secret downwardAPI projected hostPath",
	"VolumeProjection":     "secret configMap downwardAPI serviceAccountToken",
	"VolumeMount":          "name mountPath subPath subPathExpr readOnly recursiveReadOnly",
	"ContainerPort":        "name containerPort protocol",
	"EnvVarSource":         "fieldRef resourceFieldRef configMapKeyRef secretKeyRef",
	"EnvFromSource":        "prefix configMapRef secretRef",
	"ResourceRequirements": "limits requests",
}

// TestEveryFieldIsKnownOrNamed sets each field that the API has, one at a time.
func TestEveryFieldIsKnownOrNamed(t *testing.T) {
	for name, at := range map[string]func(p *corev1.Pod) any{
		"PodSpec":   func(p *corev1.Pod) any { return &p.Spec },
		"Container": func(p *corev1.Pod) any { return &p.Spec.Containers[0] },
		"PodSecurityContext": func(p *corev1.Pod) any {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{}
			return p.Spec.SecurityContext
		},
		"SecurityContext": func(p *corev1.Pod) any { return securityOf(p) },
		"Capabilities":    func(p *corev1.Pod) any { c := &corev1.Capabilities{}; securityOf(p).Capabilities = c; return c },
		"Volume": func(p *corev1.Pod) any {
			p.Spec.Volumes = make([]corev1.Volume, 1)
			return &p.Spec.Volumes[0].VolumeSource
		},
		"VolumeProjection": func(p *corev1.Pod) any { return projectionOf(p) },
		"VolumeMount":      func(p *corev1.Pod) any { return mountOf(p) },
		"ContainerPort": func(p *corev1.Pod) any {
			c := &p.Spec.Containers[0]
			c.Ports = make([]corev1.ContainerPort, 1)
			return &c.Ports[0]
		},
		"EnvVarSource": func(p *corev1.Pod) any { return envSourceOf(p) },
		"EnvFromSource": func(p *corev1.Pod) any {
			c := &p.Spec.Containers[0]
			c.EnvFrom = make([]corev1.EnvFromSource, 1)
			return &c.EnvFrom[0]
		},
		"Lifecycle":            func(p *corev1.Pod) any { return lifecycleOf(p) },
		"LifecycleHandler":     func(p *corev1.Pod) any { h := &corev1.LifecycleHandler{}; lifecycleOf(p).PreStop = h; return h },
		"Probe":                func(p *corev1.Pod) any { return probeOf(p) },
		"ProbeHandler":         func(p *corev1.Pod) any { return &probeOf(p).ProbeHandler },
		"HTTPGetAction":        func(p *corev1.Pod) any { g := &corev1.HTTPGetAction{}; probeOf(p).HTTPGet = g; return g },
		"ResourceRequirements": func(p *corev1.Pod) any { return &p.Spec.Containers[0].Resources },
	} {
		known := strings.Fields(knownFields[name])
		fields := reflect.TypeOf(at(basic())).Elem()
		for i := range fields.NumField() {
			field, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
			if field == "" {
				continue // the fields of another struct
			}
			p := basic()
			set(reflect.ValueOf(at(p)).Elem().Field(i))
			named := slices.ContainsFunc(Unsupported(p), func(f string) bool {
				return strings.Contains(f, "."+field) || (field == "containers" && strings.HasPrefix(f, "spec.containers"))
			})
			if !named && !slices.Contains(known, field) {
				t.Errorf("%s.%s is ignored silently", name, field)
			}
			if named && slices.Contains(known, field) && !hasOwnRules(name, field) {
				t.Errorf("%s.%s is refused, though it is known: %v", name, field, Unsupported(p))
			}
		}
	}
}

// hasOwnRules: some of the values that set gives the field are refused.
func hasOwnRules(name, field string) bool {
	return slices.Contains([]string{
		"PodSpec.containers", "PodSpec.initContainers", "PodSpec.runtimeClassName", "PodSpec.overhead", "PodSpec.securityContext", "Container.resources", "Container.volumeMounts", "Container.securityContext",
		"SecurityContext.seccompProfile", "PodSecurityContext.seccompProfile", "VolumeMount.mountPath", "Container.workingDir", "Container.tty", "Container.stdin", "Container.stdinOnce", "Container.lifecycle",
	}, name+"."+field)
}

func basic() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "i", Command: []string{"c"}}}}}
}

func securityOf(p *corev1.Pod) *corev1.SecurityContext {
	s := &corev1.SecurityContext{}
	p.Spec.Containers[0].SecurityContext = s
	return s
}

func probeOf(p *corev1.Pod) *corev1.Probe {
	probe := &corev1.Probe{}
	p.Spec.Containers[0].StartupProbe = probe
	return probe
}

func lifecycleOf(p *corev1.Pod) *corev1.Lifecycle {
	l := &corev1.Lifecycle{}
	p.Spec.Containers[0].Lifecycle = l
	return l
}

func projectionOf(p *corev1.Pod) *corev1.VolumeProjection {
	s := &corev1.ProjectedVolumeSource{Sources: make([]corev1.VolumeProjection, 1)}
	p.Spec.Volumes = []corev1.Volume{volumeOf("p", corev1.VolumeSource{Projected: s})}
	return &s.Sources[0]
}

func mountOf(p *corev1.Pod) *corev1.VolumeMount {
	c := &p.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	return &c.VolumeMounts[0]
}

func envSourceOf(p *corev1.Pod) *corev1.EnvVarSource {
	s := &corev1.EnvVarSource{}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: s}}
	return s
}

// set gives a field a value that says something.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if v.Elem().Kind() == reflect.Bool {
			v.Elem().SetBool(true)
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		if list, ok := v.Addr().Interface().(*corev1.ResourceList); ok {
			(*list)[corev1.ResourceCPU] = resource.MustParse("1")
			return
		}
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				set(v.Field(i))
			}
		}
	}
}

// FuzzAdmission decodes anything that may be a PodSpec: nothing panics, whatever is
// set at the top is known or named, and the machine is one that can be.
func FuzzAdmission(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"containers":[{"name":"a","image":"i"}]}`, `{"hostNetwork":true,"containers":[{},{}]}`,
		`{"containers":[{"resources":{"limits":{"cpu":"1e18","memory":"1e30"},"requests":{"cpu":"-5","memory":"1n"}}}]}`,
		`{"containers":[{"volumeMounts":[{"mountPath":"//..//x"},{"mountPath":""}]}],"volumes":[{"projected":{"sources":[{}]}}]}`,
		`{"initContainers":[{"command":["x"]}],"nodeSelector":{"a":"b"},"affinity":{"nodeAffinity":{}},"containers":[{"env":[{"valueFrom":{}}]}]}`,
		`{"containers":[{}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{}]}]}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &corev1.Pod{}
		if json.Unmarshal(data, &p.Spec) != nil {
			return
		}
		holdAdmission(t, p)
	})
}

// TestAdmissionOfRandomPods is the same for Pods that have much at once.
func TestAdmissionOfRandomPods(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) // the same Pods each time
	for range 2000 {
		p := &corev1.Pod{}
		scramble(reflect.ValueOf(&p.Spec).Elem(), rng, 0)
		holdAdmission(t, p)
	}
}

// scramble fills about half of the fields, lists with up to two elements.
func scramble(v reflect.Value, rng *rand.Rand, depth int) {
	if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
		*q = resource.MustParse([]string{"0", "1", "-1", "1e18", "1e30", "1n", "500m", "3Gi", "-7Ei"}[rng.IntN(9)])
		return
	}
	const deepest = 12
	if depth > deepest || (depth > 0 && rng.IntN(2) == 0) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				scramble(v.Field(i), rng, depth+1)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		scramble(v.Elem(), rng, depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rng.IntN(3), 3))
		for i := range v.Len() {
			scramble(v.Index(i), rng, depth)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		scramble(key, rng, 0)
		scramble(value, rng, depth)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString([]string{"", "x", "cpu", "memory", "../../etc", "/", "/a", "/a/b", "a\x00\n", "Always", "Memory", "metadata.name"}[rng.IntN(12)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt([]int64{-1, 1, 1<<31 - 1}[rng.IntN(3)])
	}
}

// holdAdmission holds what admission says of a Pod to what it may say.
func holdAdmission(t *testing.T, p *corev1.Pod) {
	t.Helper()
	found := Unsupported(p)
	host := Host{CPUs: 7, MemoryBytes: 14 << 30, MaxVMs: 2, StorageBytes: 1 << 40, Node: aNode(nil)}
	host.refuseOnNode(t.Context(), p)
	shape := ShapeOf(p, host)
	if shape.CPUs < 1 || shape.CPUs > 7 || shape.MemoryBytes < mebibyte || shape.MemoryBytes > 14<<30 || shape.DiskBytes < 0 || shape.DiskBytes > 1<<40 {
		t.Errorf("shape %+v", shape)
	}
	known := strings.Fields(knownFields["PodSpec"])
	v := reflect.ValueOf(p.Spec)
	for i := range v.NumField() {
		field, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		named := slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, "spec."+field) })
		darwin := field == "os" && p.Spec.OS != nil && p.Spec.OS.Name == guestOS
		if isSet(v.Field(i)) && !named && !slices.Contains(known, field) && !darwin {
			t.Errorf("%s is ignored silently", field)
		}
	}
}
