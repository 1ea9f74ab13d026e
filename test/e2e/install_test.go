package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/helm"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestInstallByThePage types the commands of docs/install.md as they stand there, from a
// chart in dist/ to a Pod with logs, an upgrade, and an uninstallation that gives all Macs
// back. The sandbox stands for the cloud and for the nodes that run the chart's own Pods.
// With -release chart and programs are a release's, and helm installs from a registry.
func TestInstallByThePage(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, bare())
	w := f.newWalk()

	w.registers(w.types("The fleet's SSH key"))
	f.order(3)

	f.chartIsPulled(w.types("The chart", fromRegistry()...))
	f.imageIsReleased("the manager", w.bash("kubectl -n macfleet-system get deployment macfleet-manager -o jsonpath='{.spec.template.spec.containers[0].image}'"))
	f.readCoreRole()
	if err := f.world.RunInstalled(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.awaitRunning(3)
	if hosts := w.bash("kubectl get sash"); strings.Count(hosts, "InUse") != 3 {
		t.Errorf("kubectl get sash does not show the three Macs:\n%s", hosts)
	}
	if machines := w.bash("kubectl -n macfleet-system get machines"); strings.Count(machines, "Running") != 3 {
		t.Errorf("kubectl get machines does not show the three Machines:\n%s", machines)
	}
	w.agentsAreReleased(3)

	if said := w.types("A first Pod"); !strings.Contains(said, "hello from ") {
		t.Errorf("the first Pod has no log:\n%s", said)
	}

	f.runHooks()
	for _, said := range []string{w.types("Upgrade"), w.bash("helm history macfleet -n macfleet-system")} {
		if !strings.Contains(said, "deployed") {
			t.Errorf("the release is not upgraded:\n%s", said)
		}
	}
	f.awaitRunning(3)

	w.types("Uninstall")
	if list := f.hosts(); f.inPhase(infrav1.HostAvailable) != 3 {
		t.Errorf("the release is gone before all Macs are back: %+v", list)
	}
	for _, server := range f.world.Vendor().Servers() {
		if !strings.HasPrefix(server.Name, world.PoolPrefix) {
			t.Errorf("server %s is not in the pool again", server.Name)
		}
	}
}

// registers does in the vendor's console what the page says of the key that its commands print.
func (w *walk) registers(said string) {
	w.Helper()
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if err := w.world.Vendor().AddSSHKey("by hand", lines[len(lines)-1]); err != nil {
		w.Fatalf("the page's commands print no key to register: %v\n%s", err, said)
	}
}

// order has servers delivered that are named as the page says.
func (f *fleet) order(n int) {
	f.Helper()
	for i := range n {
		_, err := f.world.Vendor().AddServer(f.Context(), scaleway.ServerSpec{
			Name: fmt.Sprintf("%s%02d", world.PoolPrefix, i+1), Type: world.ServerType, Zone: world.Zone, OS: world.OS, Age: 48 * time.Hour,
		})
		if err != nil {
			f.Fatal(err)
		}
	}
}

// walk types what a page says, in a folder with a dist/, where kubectl and helm are found.
type walk struct {
	*fleet
	page string
	dir  string
}

// asTyped are the places of the page that are the reader's to fill in, or to leave out.
var asTyped = []string{
	"SCW_ACCESS_KEY=…", "SCW_ACCESS_KEY=" + scaleway.DefaultAccessKey,
	"SCW_SECRET_KEY=…", "SCW_SECRET_KEY=" + scaleway.DefaultSecretKey,
	"SCW_DEFAULT_PROJECT_ID=…", "SCW_DEFAULT_PROJECT_ID=" + scaleway.DefaultProjectID,
	"kubectl create namespace macfleet-system   # unless it is there, from the SSH key\n", "",
	// The Macs of the sandbox come with tart.
	"    profile:\n      tart: {version: 2.30.0, source: \"https://github.com/cirruslabs/tart/releases/download/2.30.0/tart.tar.gz\", sha256: \"…\"}\n", "",
}

func (f *fleet) newWalk() *walk {
	f.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "install.md"))
	if err != nil {
		f.Fatal(err)
	}
	w := &walk{fleet: f, page: string(page), dir: f.TempDir()}
	binary, err := helm.Binary(filepath.Join("..", ".."))
	if err != nil {
		f.Fatal(err)
	}
	for name, program := range map[string]string{"helm": binary, "kubectl": binaries.Cluster.ControlPlane + " kubectl"} {
		script := "#!/bin/sh\nexec " + program + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(script), 0o700); err != nil {
			f.Fatal(err)
		}
	}
	w.putDist()
	return w
}

// putDist has the release's files where the page has them, or packages the checkout's chart.
func (w *walk) putDist() {
	w.Helper()
	if *releaseFlag != "" {
		w.bash("ln -s " + filepath.Join(*releaseFlag, "dist") + " dist")
		return
	}
	chart, err := filepath.Abs(filepath.Join("..", "..", "charts", "macfleet"))
	if err != nil {
		w.Fatal(err)
	}
	w.bash("mkdir dist && helm package -d dist --version 0.1.0 " + chart)
}

// types runs what the page's first block of commands below a heading says, but for words in
// whose place others are typed.
func (w *walk) types(heading string, instead ...string) string {
	w.Helper()
	return w.bash(w.commands(heading, instead...))
}

func (w *walk) commands(heading string, instead ...string) string {
	w.Helper()
	_, section, found := strings.Cut(w.page, "# "+heading+"\n")
	block := regexp.MustCompile("(?s)\n```\n(.*?)```\n").FindStringSubmatch(section)
	if !found || block == nil {
		w.Fatalf("docs/install.md has no commands below %q", heading)
	}
	commands := strings.NewReplacer(append(slices.Clone(asTyped), instead...)...).Replace(block[1])
	if strings.Contains(commands, "…") {
		w.Fatalf("docs/install.md, %s: something is left to fill in that this test does not know:\n%s", heading, commands)
	}
	return commands
}

func (w *walk) bash(commands string) string {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "PATH="+w.dir+":"+os.Getenv("PATH"), "KUBECONFIG="+w.world.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("as the page says:\n%s\n%v\n%s", commands, err, out)
	}
	return string(out)
}

// runHooks does until the test's end what a node would with the Pods of the chart's Jobs.
func (f *fleet) runHooks() {
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan struct{})
	f.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		ticker := time.NewTicker(poll)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				f.runHookPods(ctx)
			}
		}
	}()
}

func (f *fleet) runHookPods(ctx context.Context) {
	var pods corev1.PodList
	if err := f.client.List(ctx, &pods, client.HasLabels{batchv1.JobNameLabel, "app.kubernetes.io/instance"}); err != nil {
		return // the cluster ends with the test
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Status.Phase == corev1.PodPending {
			f.runHook(ctx, p)
		}
	}
}

// runHook runs the manager with the Pod's arguments and ServiceAccount.
func (f *fleet) runHook(ctx context.Context, p *corev1.Pod) {
	kubeconfig := filepath.Join(f.TempDir(), "kubeconfig")
	if err := f.world.AccountKubeconfig(ctx, kubeconfig, p.Namespace, p.Spec.ServiceAccountName); err != nil {
		f.Errorf("the hook %s: %v", p.Name, err)
	}
	container := p.Spec.Containers[0]
	f.imageIsReleased(p.Name, container.Image)
	cmd := exec.CommandContext(ctx, binaries.Manager, container.Args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	phase, end := corev1.PodSucceeded, corev1.ContainerStateTerminated{Reason: "Completed"}
	if err := cmd.Run(); err != nil { // the log's end is its message, as the chart asks for
		phase, end = corev1.PodFailed, corev1.ContainerStateTerminated{Reason: "Error", ExitCode: int32(max(cmd.ProcessState.ExitCode(), 1)), Message: out.String()}
	}
	if phase == corev1.PodSucceeded && container.Args[0] == "uninstall" && p.Namespace == world.Namespace {
		f.released = time.Now()
	}
	f.Logf("the hook %s %q: %s\n%s", p.Name, container.Args, phase, out.String())
	end.StartedAt, end.FinishedAt = metav1.Now(), metav1.Now()
	base := p.DeepCopy()
	p.Status.Phase = phase
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container.Name, Image: container.Image, State: corev1.ContainerState{Terminated: &end}}}
	if err := f.client.Status().Patch(ctx, p, client.MergeFrom(base)); err != nil && ctx.Err() == nil {
		f.Errorf("the hook %s: %v", p.Name, err)
	}
}
