package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
)

// release is one of the chart in a sandbox that began Bare.
type release struct {
	*fleet
	name, namespace string
	// fullname begins the names of its objects.
	fullname string
	// runManager runs its manager, once helm has made the Deployment.
	runManager func(context.Context) error
}

// bare has the manager's flags for a test that installs the chart, whose defaults would have it wait.
func bare() world.Options {
	return world.Options{Bare: true, ManagerArgs: []string{"--inventory-interval=2s", "--bootstrap-recover-after=20s"}}
}

// firstRelease is the one of the page.
func (f *fleet) firstRelease() *release {
	return &release{fleet: f, name: "macfleet", namespace: world.Namespace, fullname: "macfleet", runManager: f.world.RunInstalled}
}

// secondRelease is another team's.
func (f *fleet) secondRelease() *release {
	r := &release{fleet: f, name: "other", namespace: "other-system", fullname: "other-macfleet"}
	r.runManager = func(ctx context.Context) error { return f.world.RunBeside(ctx, r.namespace, r.fullname+"-manager") }
	return r
}

func (r *release) fleetName() string { return r.fullname + "-builders" }

// prepares makes the two Secrets that are there before the chart, as the page says.
func (r *release) prepares(w *walk) {
	r.Helper()
	named := strings.NewReplacer("macfleet-builders", r.fleetName(), "macfleet-system", r.namespace, "cluster-name=macfleet", "cluster-name="+r.fullname)
	w.registers(w.bash(named.Replace(w.commands("The fleet's SSH key"))))
	r.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "macfleet-vendor"},
		StringData: map[string]string{
			"SCW_ACCESS_KEY": scaleway.DefaultAccessKey, "SCW_SECRET_KEY": scaleway.DefaultSecretKey, "SCW_DEFAULT_PROJECT_ID": scaleway.DefaultProjectID,
		},
	})
}

// helmEnd is how a helm ended.
type helmEnd struct {
	said string
	err  error
	at   time.Time
}

// runHelm waits for the command's end.
func (r *release) runHelm(args ...string) helmEnd {
	r.Helper()
	out, err := r.helmIn(r.namespace, args...).CombinedOutput()
	return helmEnd{string(out), err, time.Now()}
}

// installs has helm install the release and wait for so many Macs. Meanwhile the manager
// comes to work, as where a node runs its Pods.
func (r *release) installs(macs int, args ...string) helmEnd {
	r.Helper()
	cmd := r.helmIn(r.namespace, append([]string{
		"install", r.name, filepath.Join("..", "..", "charts", "macfleet"), "--wait", "--set", fmt.Sprintf("fleets.builders.replicas=%d", macs),
		"--set", "manager.agentVersion=" + r.managerVersion(), "--set", "fleets.builders.zone=" + world.Zone, "--set", "fleets.builders.type=" + world.ServerType, "--set", "fleets.builders.os=tahoe",
	}, args...)...)
	ended := make(chan helmEnd, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		ended <- helmEnd{string(out), err, time.Now()}
	}()
	r.await("the manager's Pods", func() (string, bool) {
		select {
		case end := <-ended:
			r.Fatalf("helm install ended before its manager was there: %v\n%s", end.err, end.said)
		default:
		}
		pods := r.managerPods()
		return fmt.Sprint(len(pods), " Pods"), len(pods) == 2
	})
	if err := r.runManager(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.showRunning(r.managerPods())
	return <-ended
}

// managerVersion is the one of the sandbox's manager, and so of its agent.
func (r *release) managerVersion() string {
	r.Helper()
	out, err := exec.CommandContext(r.Context(), binaries.Manager, "--version").Output()
	if err != nil {
		r.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (r *release) managerPods() []corev1.Pod {
	r.Helper()
	var pods corev1.PodList
	r.list(&pods, client.InNamespace(r.namespace), client.MatchingLabels{"app.kubernetes.io/name": "macfleet", "app.kubernetes.io/instance": r.name})
	return pods.Items
}

// showRunning says of Pods what a kubelet does whose containers are ready.
func (r *release) showRunning(pods []corev1.Pod) {
	r.Helper()
	for i := range pods {
		p := &pods[i]
		base := p.DeepCopy()
		p.Status.Phase = corev1.PodRunning
		for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		}
		if err := r.client.Status().Patch(r.Context(), p, client.MergeFrom(base)); err != nil {
			r.Fatalf("showing that %s runs: %v", p.Name, err)
		}
	}
}

// uninstalls has helm delete the release, and wait until all of it is gone.
func (r *release) uninstalls() helmEnd {
	r.Helper()
	return r.runHelm("uninstall", r.name, "--wait", "--timeout", patience.String())
}

// scaleTo is what the page says before that.
func (r *release) scaleTo(macs int) {
	r.Helper()
	deployment := &clusterv1.MachineDeployment{}
	deployment.Namespace, deployment.Name = r.namespace, r.fleetName()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, macs))
	if err := r.client.Patch(r.Context(), deployment, patch); err != nil {
		r.Fatalf("scaling %s: %v", r.fleetName(), err)
	}
}

// uninstallSaid is what the Job of the last helm uninstall ended with.
func (r *release) uninstallSaid() string {
	r.Helper()
	var pods corev1.PodList
	r.list(&pods, client.InNamespace(r.namespace), client.MatchingLabels{"app.kubernetes.io/name": "macfleet-pre-delete", "app.kubernetes.io/instance": r.name})
	if len(pods.Items) != 1 || len(pods.Items[0].Status.ContainerStatuses) != 1 || pods.Items[0].Status.ContainerStatuses[0].State.Terminated == nil {
		r.Fatalf("the Job's Pods: %+v", pods.Items)
	}
	return pods.Items[0].Status.ContainerStatuses[0].State.Terminated.Message
}

// macs are the ids of the servers that Machines of the release have.
func (r *release) macs() (ids []string) {
	r.Helper()
	for _, h := range r.hosts() {
		if h.Spec.ClaimRef != nil && h.Spec.ClaimRef.Namespace == r.namespace {
			ids = append(ids, h.Spec.ServerID)
		}
	}
	return ids
}
