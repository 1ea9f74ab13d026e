package conformance

import (
	"context"
	_ "embed" // the policy
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/sandbox/cluster"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/world"
)

// What `make conformance` asks for.
var (
	whole     = flag.Bool("whole", false, "run all specs that a Mac is held to, not a few")
	only      = repeated("only", "run the specs whose name matches this, whatever the list says, and name those that are not in it; several of these run side by side")
	reportDir = flag.String("report-dir", "", "keep the suite's output and JUnit here")
	tableFile = flag.String("table", "", "write the table of results below the marker of this page; other rows than those of the specs that ran stay, without -whole")
)

// repeated is a flag that may be given several times.
func repeated(name, usage string) *[]string {
	var values []string
	flag.Func(name, usage, func(value string) error {
		values = append(values, value)
		return nil
	})
	return &values
}

const (
	macs = 3
	// lanes is how much of the suite runs at once: three Macs have room for six Pods, and
	// a few specs want three of them.
	lanes    = 3
	patience = 10 * time.Minute
	// timeScale turns a reinstall of 17 minutes into 5 seconds.
	timeScale = 200
)

// TestKubernetesOwnSuite runs Kubernetes' suite on simulated Macs.
func TestKubernetesOwnSuite(t *testing.T) {
	if err := mac.Supported(); err != nil {
		t.Fatal(err)
	}
	list, err := parseSpecs(specsFile)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	built, err := world.Build(ctx, world.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binary, err := buildSuite(ctx, filepath.Join("..", "..", "sandbox", "controlplane"), cacheDir(t))
	if err != nil {
		t.Fatal(err)
	}
	w, dir := startMacs(t, built)
	run := suite{
		Binary: binary, Args: kubernetes(w.Kubeconfig(), kubectl(t, built, dir), macs), Env: []string{"KUBECONFIG=" + w.Kubeconfig()},
		Dir: reports(t, dir), Focus: list.Small, Skip: list.skips(),
	}
	if *whole {
		run.Focus = list.Focus
	}
	judge(t, run, list, lanes, tableMark)
}

// reports is the folder of the suite's reports.
func reports(t *testing.T, dir string) string {
	t.Helper()
	if *reportDir == "" {
		return filepath.Join(dir, "suite")
	}
	kept, err := filepath.Abs(*reportDir)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// judge runs a suite, says what failed, and writes the table below the mark.
func judge(t *testing.T, run suite, list specs, atOnce int, mark string) {
	t.Helper()
	if len(*only) > 0 {
		run.Focus, run.Skip = *only, nil
	}
	results := play(t, run, list, atOnce)
	for _, r := range results {
		if r.Outcome == failed {
			t.Errorf("%s: %s", r.Name, r.Why)
		}
	}
	t.Log(summary(results))
	if extra := list.extra(results); len(extra) > 0 {
		t.Logf("%d of these specs a whole run leaves out:\n%s", len(extra), strings.Join(extra, "\n"))
	}
	if *tableFile != "" {
		writeTable(t, *tableFile, mark, list, results)
	}
}

// play runs the suite and reads its reports.
func play(t *testing.T, run suite, list specs, atOnce int) []result {
	t.Helper()
	reports, err := run.run(t.Context(), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	var results []result
	for i, report := range reports {
		found, err := readResults(report, list, run.Focus[i])
		if err != nil {
			t.Fatal(err)
		}
		// An expression that matches nothing proves nothing.
		if count(found, passed)+count(found, failed) == 0 {
			t.Errorf("no spec that matches %q has run", run.Focus[i])
		}
		results = append(results, found...)
	}
	return sorted(results)
}

func cacheDir(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "macfleet")
}

// kubectl links the control plane's binary under the name that makes it kubectl.
func kubectl(t *testing.T, built world.Binaries, dir string) string {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	if err := built.Cluster.EnvtestAssets(bin); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(bin, "kubectl")
}

// startMacs starts a sandbox whose Macs are all Nodes, with the policy of the suite.
func startMacs(t *testing.T, built world.Binaries) (*world.World, string) {
	t.Helper()
	w, dir := startWorld(t, world.Options{Binaries: built, Hosts: macs})
	kubectlDoes(t, built.Cluster, w, policy, "apply", "-f", "-")
	// Pods of the suite know nothing of Macs, and ask for no Mac by name.
	kubectlDoes(t, built.Cluster, w, "", "-n", world.Namespace, "patch", "macnodeprofile", world.Fleet, "--type=merge", "-p", `{"spec":{"node":{"taints":[]}}}`)
	scale(t, w)
	return w, dir
}

// startWorld starts a sandbox, which stops with the test, in a folder of its own.
func startWorld(t *testing.T, options world.Options) (*world.World, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "mf")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "sandbox.log"))
	if err != nil {
		t.Fatal(err)
	}
	options.Dir, options.TimeScale, options.Logger = dir, timeScale, slog.New(slog.NewTextHandler(log, nil))
	w, err := world.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			t.Error(err)
		}
		_ = log.Close()
		if t.Failed() {
			t.Logf("logs are kept in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return w, dir
}

//go:embed policy.yaml
var policy string

func kubectlDoes(t *testing.T, binaries cluster.Binaries, w *world.World, input string, args ...string) {
	t.Helper()
	cmd := binaries.Kubectl(t.Context(), w.Kubeconfig(), args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
}

// scale makes all Macs Nodes, and waits until they are Ready.
func scale(t *testing.T, w *world.World) {
	t.Helper()
	c := clientOf(t, w)
	deployment := &clusterv1.MachineDeployment{}
	deployment.Namespace, deployment.Name = world.Namespace, world.Fleet
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, macs))
	if err := c.Patch(t.Context(), deployment, patch); err != nil {
		t.Fatal(err)
	}
	var nodes corev1.NodeList
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(ctx context.Context) (bool, error) {
		if err := c.List(ctx, &nodes); err != nil {
			return false, nil // asked again
		}
		ready := 0
		for _, n := range nodes.Items {
			if takesPods(n) {
				ready++
			}
		}
		return ready == macs, nil
	})
	if err != nil {
		t.Fatalf("%d of %d Macs are Nodes: %v", len(nodes.Items), macs, err)
	}
}

func clientOf(t *testing.T, w *world.World) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(w.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func takesPods(n corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return len(n.Spec.Taints) == 0
		}
	}
	return false
}

// Marks begin the parts of the page that are generated; a heading ends them.
const (
	tableMark      = "<!-- results -->\n"
	clusterAPIMark = "<!-- results of Cluster API's specs -->\n"
)

func writeTable(t *testing.T, path, mark string, list specs, results []result) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, written, found := strings.Cut(string(page), mark)
	if !found {
		t.Fatalf("%s has no line %q", path, mark)
	}
	written, tail, more := strings.Cut(written, "\n## ")
	if more {
		tail = "\n## " + tail
	}
	if !*whole {
		results = merged(written, list, results)
	}
	if err := os.WriteFile(path, []byte(head+mark+"\n"+summary(results)+"\n\n"+table(results)+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// summary says in a sentence what became of all.
func summary(results []result) string {
	return fmt.Sprintf("%d specs passed, %d failed, %d were skipped.", count(results, passed), count(results, failed), count(results, left))
}
