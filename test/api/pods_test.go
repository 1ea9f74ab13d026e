package api

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/agent/pod/admissiontest"
)

// saysHonour is what the policy for Pods says before the fields.
const saysHonour = "a Mac runs a Pod as one macOS VM and cannot honour: "

// named is what stands between brackets for one of a list, as opposed to a resource.
var named = regexp.MustCompile(`(containers|initContainers|volumes|ports|env|volumeMounts)\[([^\]]+)\]`)

// valued is a field with its value, where it has a single one.
var valued = regexp.MustCompile(`^(\S+)( \(.+\))?$`)

// refusedFields are those that a message of the policy names, sorted and as cases have them.
// Of each it says what to do.
func refusedFields(t *testing.T, message string) []string {
	t.Helper()
	_, after, found := strings.Cut(message, saysHonour)
	list, _, ended := strings.Cut(after, ". What Macs honour")
	if !found || !ended {
		t.Fatalf("%q says nothing of fields", message)
	}
	var fields []string
	for _, one := range strings.Split(list, "; ") {
		field, remedy, _ := strings.Cut(one, ": ")
		if before, after, ok := strings.Cut(one, "): "); ok { // a value, such as an image, may have a colon
			field, remedy = before+")", after
		}
		parts := valued.FindStringSubmatch(field)
		if parts == nil || remedy == "" {
			t.Fatalf("%q: want a field, its value and what to do", one)
		}
		fields = append(fields, named.ReplaceAllString(parts[1], "$1[]"))
	}
	slices.Sort(fields)
	return fields
}

// TestThePolicyForPodsIsTheAgents: both name the same fields of the same Pods.
func TestThePolicyForPodsIsTheAgents(t *testing.T) {
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: admissiontest.AnotherClass}, Handler: "x", Overhead: &nodev1.Overhead{PodFixed: cpu}}
	must(t, api.Create(t.Context(), class))
	t.Cleanup(func() { must(t, api.Delete(context.Background(), class)) })
	for _, c := range admissiontest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			err := api.Create(t.Context(), c.Pod(), client.DryRunAll)
			if len(c.Fields) == 0 || c.AgentOnly {
				must(t, err)
				return
			}
			if err == nil {
				t.Fatalf("allowed, want a refusal of %v", c.Fields)
			}
			want := slices.Sorted(slices.Values(c.Fields))
			if d := cmp.Diff(want, refusedFields(t, err.Error())); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestThePolicyForPodsSaysWhatToDo: what is missing or differs is not to be left out.
func TestThePolicyForPodsSaysWhatToDo(t *testing.T) {
	p := admissiontest.New()
	p.Spec.Volumes = []corev1.Volume{{Name: "share", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}}}
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "db", Image: "postgres:17", Ports: []corev1.ContainerPort{{ContainerPort: 22, HostPort: 2222}}})
	refused(t, api.Create(t.Context(), p, client.DryRunAll), saysHonour+strings.Join([]string{
		"spec.volumes[share].nfs: use emptyDir, configMap, secret, downwardAPI, projected or hostPath instead",
		"spec.containers[vm].command: add one, as several containers of a Pod are commands in one VM",
		"spec.containers[db].ports[22].hostPort (2222): leave it out",
		"spec.containers[db].image (postgres:17): make it registry.test/macos/base:v1, the image of the first container, as all share one VM",
		"spec.containers[db].command: add one, as several containers of a Pod are commands in one VM",
	}, "; ")+". What Macs honour is listed in docs/pods.md of macfleet.")
}

func macAffinity(terms ...[]corev1.NodeSelectorRequirement) *corev1.Affinity {
	required := &corev1.NodeSelector{}
	for _, t := range terms {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: t})
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
}

// TestWhichPodsAreForMacs: others may have all that a linux node honours.
func TestWhichPodsAreForMacs(t *testing.T) {
	darwin := []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/os", Operator: corev1.NodeSelectorOpIn, Values: []string{"darwin"}}}
	either := []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/os", Operator: corev1.NodeSelectorOpIn, Values: []string{"darwin", "linux"}}}
	macs := []corev1.Toleration{{Key: "tuist.dev/macos", Operator: corev1.TolerationOpExists}}
	owned := func(kind, version string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "o", UID: "u", Controller: &yes}}
		}
	}
	none := func(edit func(*corev1.PodSpec)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = nil; edit(&p.Spec) }
	}
	for name, c := range map[string]struct {
		edit    func(*corev1.Pod)
		refused bool
	}{
		"selects macOS":                  {func(*corev1.Pod) {}, true},
		"is of the class of Macs":        {none(func(s *corev1.PodSpec) { s.RuntimeClassName = new("macos") }), true},
		"selects a fleet":                {none(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"tuist.dev/fleet": "f"} }), true},
		"requires macOS":                 {none(func(s *corev1.PodSpec) { s.Affinity = macAffinity(darwin, darwin) }), true},
		"may be elsewhere":               {none(func(s *corev1.PodSpec) { s.Affinity = macAffinity(darwin, either) }), false},
		"tolerates Macs alone":           {none(func(s *corev1.PodSpec) { s.Tolerations = macs }), false},
		"tolerates everything":           {none(func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }), false},
		"selects linux":                  {none(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"kubernetes.io/os": "linux"} }), false},
		"says nothing":                   {none(func(*corev1.PodSpec) {}), false},
		"a ReplicaSet's":                 {owned("ReplicaSet", "apps/v1"), true},
		"a DaemonSet's":                  {owned("DaemonSet", "apps/v1"), true},
		"a Job's fails, so that it ends": {owned("Job", "batch/v1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			p := admissiontest.New()
			p.Spec.HostNetwork = true
			c.edit(p)
			switch err := api.Create(t.Context(), p, client.DryRunAll); {
			case c.refused:
				refused(t, err, saysHonour+"spec.hostNetwork (true): leave it out.")
			default:
				must(t, err)
			}
		})
	}
}

// TestNoContainerIsAddedToAPodOfAMac: kubectl debug ends with the reason. A Pod of which
// nothing has run yet is left to the agent, as nothing tells for sure where it runs.
func TestNoContainerIsAddedToAPodOfAMac(t *testing.T) {
	pods := kubernetes.NewForConfigOrDie(apiConfig).CoreV1().Pods("default")
	debug := []byte(`{"spec":{"ephemeralContainers":[{"name":"d","image":"busybox"}]}}`)
	try := func(name string) error {
		_, err := pods.Patch(t.Context(), name, types.StrategicMergePatchType, debug, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "ephemeralcontainers")
		return err
	}
	for name, c := range map[string]struct {
		status  string
		refused bool
	}{
		"on a Mac":                 {`{"containerStatuses":[{"name":"vm","containerID":"tart://tk-uid-1","image":"","imageID":"","ready":true,"restartCount":0}]}`, true},
		"on a Mac, its first step": {`{"initContainerStatuses":[{"name":"i","containerID":"tart://tk-uid-1/i","image":"","imageID":"","ready":true,"restartCount":0}]}`, true},
		"on another node":          {`{"containerStatuses":[{"name":"vm","containerID":"containerd://1","image":"","imageID":"","ready":true,"restartCount":0}]}`, false},
		"not started yet":          {`{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := admissiontest.New()
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: p.Spec.Containers[0].Image, Command: []string{"true"}}}
			must(t, api.Create(t.Context(), p))
			must(t, api.Status().Patch(t.Context(), p, client.RawPatch(types.MergePatchType, []byte(`{"status":`+c.status+`}`))))
			if !c.refused {
				must(t, try(p.Name))
				return
			}
			var err error
			// A policy counts within a moment.
			must(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, rights, true, func(context.Context) (bool, error) {
				err = try(p.Name)
				return err != nil, nil
			}))
			refused(t, err, "no container can be added to it. kubectl exec runs further commands in the VM.")
		})
	}
}

// warnings are what the API server warned of.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) of() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := strings.Join(w.said, "\n")
	w.said = nil
	return said
}

// workloads are what makes Pods of a template.
func workloads(p *corev1.Pod) map[string]client.Object {
	labels := map[string]string{"app": "a"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: p.Spec}
	once := *template.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	selector := &metav1.LabelSelector{MatchLabels: labels}
	meta := metav1.ObjectMeta{GenerateName: "w-", Namespace: "default"}
	return map[string]client.Object{
		"Deployment":            &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}},
		"ReplicaSet":            &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}},
		"StatefulSet":           &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}},
		"DaemonSet":             &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}},
		"ReplicationController": &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: labels, Template: &template}},
		"Job":                   &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: once}},
		"CronJob": &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
			Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once}},
		}},
	}
}

// TestWhoMakesPodsThatNoMacHonoursIsWarned: of the objects themselves none is refused.
func TestWhoMakesPodsThatNoMacHonoursIsWarned(t *testing.T) {
	heard := &warnings{}
	config := rest.CopyConfig(apiConfig)
	config.WarningHandler = heard
	hearing, err := client.New(config, client.Options{Scheme: api.Scheme()})
	must(t, err)
	for name, c := range map[string]struct {
		edit func(*corev1.PodSpec)
		says string
	}{
		"bad": {func(s *corev1.PodSpec) {
			s.HostNetwork, s.Containers[0].LivenessProbe = true, &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"a"}}}}
		}, saysHonour + "spec.hostNetwork (true): leave it out; spec.containers[vm].livenessProbe: leave it out, or give the container a command."},
		"bad, tolerating": {func(s *corev1.PodSpec) {
			s.NodeSelector, s.HostNetwork, s.Tolerations = nil, true, []corev1.Toleration{{Key: "tuist.dev/macos", Operator: corev1.TolerationOpExists}}
		}, saysHonour + "spec.hostNetwork (true): leave it out."},
		"good": {func(*corev1.PodSpec) {}, ""},
		"for linux": {func(s *corev1.PodSpec) {
			s.NodeSelector, s.HostNetwork = map[string]string{"kubernetes.io/os": "linux"}, true
		}, ""},
	} {
		p := admissiontest.New()
		c.edit(&p.Spec)
		for kind, object := range workloads(p) {
			must(t, hearing.Create(t.Context(), object, client.DryRunAll))
			said := heard.of()
			if c.says == "" && strings.Contains(said, saysHonour) || !strings.Contains(said, c.says) {
				t.Errorf("%s %s: warned %q, want %q", name, kind, said, c.says)
			}
		}
	}
	// What a controller makes of it is made in silence.
	p := admissiontest.New()
	p.Spec.HostNetwork = true
	yes := true
	set := workloads(p)["ReplicaSet"]
	set.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "o", UID: "u", Controller: &yes}})
	must(t, hearing.Create(t.Context(), set, client.DryRunAll))
	if said := heard.of(); said != "" {
		t.Errorf("warned of a Deployment's ReplicaSet: %s", said)
	}
}
