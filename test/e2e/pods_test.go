package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestPodsLikeOnAnyNode runs the examples of the book over the four slots of two
// Macs, then drains one, cuts its power, and leaves it a leaked licence.
func TestPodsLikeOnAnyNode(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 2})
	f.awaitPool(2)
	f.scale(2)
	f.awaitRunning(2)
	for _, part := range []struct {
		name string
		run  func(*fleet)
	}{
		{"a Deployment is rolled", (*fleet).rollsADeployment},
		{"a Job runs on all slots", (*fleet).runsAJob},
		{"env and volumes", (*fleet).givesEnvAndVolumes},
		{"a node is drained", (*fleet).drainsANode},
		{"a Pod that runs once does not run twice", (*fleet).runsOnce},
		{"a leaked licence is healed", (*fleet).healsALeak},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(f.on(t)) }) {
			return // what follows starts from what this left
		}
	}
}

func (f *fleet) awaitNoPods() {
	f.Helper()
	f.await("no Pods", func() (string, bool) { return describePods(f.pods()), len(f.pods()) == 0 })
}

// describePods is what people want to know of Pods that are waited for.
func describePods(pods []corev1.Pod) string {
	words := make([]string, 0, len(pods))
	for _, p := range pods {
		word := fmt.Sprintf("%s on %s: %s %s %s", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.Reason, p.Status.Message)
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			switch {
			case c.State.Waiting != nil:
				word += fmt.Sprintf(" [%s: %s %s]", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
			case c.State.Terminated != nil:
				word += fmt.Sprintf(" [%s: %d %s %s]", c.Name, c.State.Terminated.ExitCode, c.State.Terminated.Reason, c.State.Terminated.Message)
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, "; ")
}

// rollsADeployment changes the template of four Pods on four slots: three are ready
// all the time, and a fifth guest never starts.
func (f *fleet) rollsADeployment() {
	manifest := strings.Replace(f.example("pods.md", "deployment"), "replicas: 2", "replicas: 4", 1)
	manifest = strings.Replace(manifest, `cpu: "4", memory: 6Gi`, `cpu: "3", memory: 5Gi`, 1)
	f.apply(manifest)
	old := identities(f.awaitPods(4))
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "builders", Namespace: metav1.NamespaceDefault}}
	patch := `{"spec":{"template":{"metadata":{"annotations":{"release":"2"}}}}}`
	if err := f.client.Patch(f.Context(), deployment, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		f.Fatal(err)
	}
	fewest := 4
	f.await("four new Pods", func() (string, bool) {
		fresh, ready := 0, 0
		pods := f.pods()
		for _, p := range pods {
			if podReady(p) {
				ready++
			}
			if _, before := old[string(p.UID)]; !before && podReady(p) {
				fresh++
			}
		}
		fewest = min(fewest, ready)
		return describePods(pods), fresh == 4 && len(pods) == 4
	})
	if fewest < 3 {
		f.Errorf("only %d Pods were ready at one time, want three", fewest)
	}
	f.discard(manifest)
}

// runsAJob has two shards of four fail for good with the code that says so.
func (f *fleet) runsAJob() {
	// The shards hold their slot until all have met, and the last one fails.
	manifest := strings.Replace(f.example("pods.md", "job"), "cat /tmp/shard;", "cat /tmp/shard; until test -e /tmp/met; do sleep 0.2; done;", 1)
	f.apply(manifest)
	f.await("four shards at once on four slots", func() (string, bool) {
		pods := f.pods()
		for _, p := range pods {
			if p.Status.Phase != corev1.PodRunning {
				return describePods(pods), false
			}
		}
		return describePods(pods), len(pods) == 4
	})
	for _, p := range f.pods() {
		f.awaitServing(p.Spec.NodeName)
		if got := f.try(nil, "exec", p.Name, "--", "touch", "/tmp/met"); got.code != 0 {
			f.Fatalf("letting %s go on: %+v", p.Name, got)
		}
	}
	codes := map[string]int32{}
	f.await("the Job to end", func() (string, bool) {
		var job batchv1.Job // before its Pods, which it counts
		f.get("tests", &job)
		pods := f.pods()
		for _, p := range pods {
			if len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Terminated != nil {
				codes[p.Annotations[batchv1.JobCompletionIndexAnnotation]] = p.Status.ContainerStatuses[0].State.Terminated.ExitCode
			}
		}
		return describePods(pods), job.Status.Succeeded == 3 && ptr.Deref(job.Status.FailedIndexes, "") == "3"
	})
	if want := map[string]int32{"0": 0, "1": 0, "2": 0, "3": 3}; fmt.Sprint(codes) != fmt.Sprint(want) {
		f.Errorf("exit codes %v, want %v", codes, want)
	}
	f.discard(manifest)
}

// givesEnvAndVolumes runs a Pod that looks at all it was given.
func (f *fleet) givesEnvAndVolumes() {
	manifest := f.example("pods.md", "volumes")
	f.apply(manifest)
	f.await("the build to succeed", func() (string, bool) {
		var p corev1.Pod
		f.get("signed-build", &p)
		if p.Status.Phase == corev1.PodFailed {
			f.Fatal(describePods([]corev1.Pod{p}))
		}
		return describePods([]corev1.Pod{p}), p.Status.Phase == corev1.PodSucceeded
	})
	f.discard(manifest)
}

// drainsANode has kubectl do it.
func (f *fleet) drainsANode() {
	manifest := f.example("pods.md", "deployment")
	f.apply(manifest)
	node := f.awaitPods(2)[0].Spec.NodeName
	f.kubectl("drain", node, "--ignore-daemonsets", "--timeout=120s")
	f.await("both Pods on the other Mac", func() (string, bool) {
		pods := f.pods()
		there := 0
		for _, p := range pods {
			if podReady(p) && p.Spec.NodeName != node {
				there++
			}
		}
		return describePods(pods), there == 2 && len(pods) == 2
	})
	f.kubectl("uncordon", node)
	f.discard(manifest)
}

// runsOnce cuts the power of a Mac with a Pod that runs once and one that runs for
// ever.
func (f *fleet) runsOnce() {
	machine, node := f.aMac()
	once, always := f.podOn(node, "once", corev1.RestartPolicyNever), f.podOn(node, "always", corev1.RestartPolicyAlways)
	once.Spec.Containers[0].Command = []string{"/bin/sleep", "3600"}
	for _, p := range []*corev1.Pod{once, always} {
		if err := f.client.Create(f.Context(), p); err != nil {
			f.Fatal(err)
		}
	}
	f.awaitPods(2)
	if err := machine.Reboot(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.await("the one to fail and the other to run again", func() (string, bool) {
		var o, a corev1.Pod
		f.get("once", &o)
		f.get("always", &a)
		again := podReady(a) && a.Status.ContainerStatuses[0].RestartCount == 1
		return describePods([]corev1.Pod{o, a}), o.Status.Phase == corev1.PodFailed && again
	})
	var p corev1.Pod
	f.get("once", &p)
	if end := p.Status.ContainerStatuses[0]; end.RestartCount != 0 || end.State.Terminated == nil || end.State.Terminated.Reason != "ContainerStatusUnknown" {
		f.Errorf("the Pod that runs once: %+v", end)
	}
	f.deletePods(once, always)
}

// healsALeak has a guest end and keep its licence. The Mac offers a slot less and is
// rebooted as soon as no Pod runs on it.
func (f *fleet) healsALeak() {
	machine, node := f.aMac()
	plan := `{"faults":[{"kind":"slot-leak","times":1}]}`
	f.rootAt(machine, "mkdir -p /var/db/tart-fake && printf %s '"+plan+"' >/var/db/tart-fake/plan.json")
	before := f.node(node).Status.NodeInfo.BootID

	short := f.podOn(node, "short", corev1.RestartPolicyNever)
	short.Spec.Containers[0].Command = []string{"/usr/bin/true"}
	first, second := f.podOn(node, "first", corev1.RestartPolicyAlways), f.podOn(node, "second", corev1.RestartPolicyAlways)
	for _, p := range []*corev1.Pod{short, first} {
		if err := f.client.Create(f.Context(), p); err != nil {
			f.Fatal(err)
		}
	}
	f.await("a Pod to end, and another to run", func() (string, bool) {
		var s, o corev1.Pod
		f.get("short", &s)
		f.get("first", &o)
		return describePods([]corev1.Pod{s, o}), s.Status.Phase == corev1.PodSucceeded && podReady(o)
	})
	if err := f.client.Create(f.Context(), second); err != nil {
		f.Fatal(err)
	}
	f.await("the Node to say that a licence is leaked", func() (string, bool) {
		n := f.node(node)
		healthy := nodeCondition(n, "LicenseSlotsHealthy")
		return fmt.Sprint(healthy, n.Status.Allocatable), healthy.Status == corev1.ConditionFalse && n.Status.Allocatable.Pods().Value() == 1
	})
	var waiting corev1.Pod
	f.get("second", &waiting)
	if waiting.Status.Phase != corev1.PodPending {
		f.Errorf("the Pod that waits: %s", describePods([]corev1.Pod{waiting}))
	}
	if got := f.node(node).Status.NodeInfo.BootID; got != before {
		f.Error("the Mac was rebooted under a Pod that runs")
	}
	f.deletePods(short, first)
	f.await("the Mac to be rebooted, and the Pod that waits to run", func() (string, bool) {
		n := f.node(node)
		f.get("second", &waiting)
		healthy := nodeCondition(n, "LicenseSlotsHealthy")
		return fmt.Sprint(healthy, describePods([]corev1.Pod{waiting})), n.Status.NodeInfo.BootID != before &&
			healthy.Status == corev1.ConditionTrue && n.Status.Allocatable.Pods().Value() == 2 && podReady(waiting)
	})
	f.deletePods(second)
}

// aMac is one in use, with its Node.
func (f *fleet) aMac() (*mac.Mac, string) {
	f.Helper()
	for id, owner := range f.owners() {
		return f.macOf(id), owner
	}
	f.Fatal("no Mac is in use")
	return nil, ""
}

func (f *fleet) node(name string) corev1.Node {
	f.Helper()
	var n corev1.Node
	if err := f.client.Get(f.Context(), client.ObjectKey{Name: name}, &n); err != nil {
		f.Fatal(err)
	}
	return n
}

func nodeCondition(n corev1.Node, kind corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return corev1.NodeCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
	}
	return corev1.NodeCondition{}
}

func (f *fleet) podOn(node, name string, policy corev1.RestartPolicy) *corev1.Pod {
	spec := macPod()
	spec.NodeSelector[corev1.LabelHostname] = node
	spec.RestartPolicy = policy
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}, Spec: spec}
}

func (f *fleet) deletePods(pods ...*corev1.Pod) {
	f.Helper()
	for _, p := range pods {
		if err := f.client.Delete(f.Context(), p); err != nil {
			f.Fatal(err)
		}
	}
	f.await("the Pods to go", func() (string, bool) {
		left := f.pods()
		return describePods(left), !slices.ContainsFunc(left, func(p corev1.Pod) bool {
			return slices.ContainsFunc(pods, func(d *corev1.Pod) bool { return d.Name == p.Name })
		})
	})
}

// get reads an object of the default namespace.
func (f *fleet) get(name string, into client.Object) {
	f.Helper()
	if err := f.client.Get(f.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, into); err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) kubectl(args ...string) {
	f.Helper()
	if out, err := binaries.Cluster.Kubectl(f.Context(), f.world.Kubeconfig(), args...).CombinedOutput(); err != nil {
		f.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
