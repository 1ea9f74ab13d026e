package clusterapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
)

// unfit are the specs of Cluster API that cannot be run, and why, in words for a user.
var unfit = map[string]string{
	"AutoscalerSpec":                     "it runs cluster-autoscaler as a Pod of Linux, and a sandbox has no such node; TestPendingPodsBringMacsAndEmptyMacsGo runs it as a program",
	"ClusterClassChangesSpec":            "its ClusterClass must have Machines of a control plane; see [framework] ClusterClass changes",
	"ClusterClassRolloutSpec":            "it rolls out a KubeadmControlPlane; macfleet's control plane is there already",
	"ClusterInPlaceUpdateSpec":           "it needs a runtime extension and a KubeadmControlPlane; Macs change in place by their profile",
	"ClusterUpgradeConformanceSpec":      "it upgrades a KubeadmControlPlane",
	"ClusterUpgradeWithRuntimeSDKSpec":   "it upgrades a KubeadmControlPlane, with a runtime extension",
	"ClusterctlUpgradeSpec":              "it makes a management cluster of containers and runs providers' images; TestContract_ClusterctlInitializesGeneratesAndUpgrades has clusterctl upgrade macfleet",
	"K8SConformanceSpec":                 "it runs Kubernetes' suite in a container; the table above is of that suite",
	"KCPAdoptionSpec":                    "it adopts Machines of a KubeadmControlPlane",
	"KCPAndMachineDeploymentRolloutSpec": "it rolls out a KubeadmControlPlane, too; see [framework] MachineDeployment rollout",
	"KCPInfraAdoptionSpec":               "it adopts Machines of a KubeadmControlPlane",
	"KCPRemediationSpec":                 "it mends Machines of a KubeadmControlPlane",
	"KubeadmJoinOldNodesSpec":            "it joins nodes with kubeadm",
	"MachinePoolSpec":                    "there is no pool of Machines: each Mac is a Machine of its own",
	"NodeDrainTimeoutSpec":               "it drains Machines of a control plane, too; see [framework] Node drain",
	"ScaleSpec":                          "it waits for a KubeadmControlPlane of each Cluster",
	"SelfHostedSpec":                     "it moves to a cluster whose control plane are Machines; see [framework] Move",
}

var _ = Describe("[shipped]", func() {
	for name, why := range unfit {
		It(name, func() { Skip(why) })
	}
})

// TestEachSpecIsRunOrSkipped: no spec of Cluster API's package is forgotten, none is skipped
// that is not there.
func TestEachSpecIsRunOrSkipped(t *testing.T) {
	shipped := specsIn(t, packageFolder(t))
	if len(shipped) < 15 {
		t.Fatalf("Cluster API has only the specs %q", shipped)
	}
	ours, err := os.ReadFile("shipped_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range shipped {
		_, skipped := unfit[name]
		if run := strings.Contains(string(ours), "e2e."+name+"("); run == skipped {
			t.Errorf("%s is run: %v, skipped: %v", name, run, skipped)
		}
	}
	for name := range unfit {
		if !slices.Contains(shipped, name) {
			t.Errorf("Cluster API has no %s", name)
		}
	}
}

// packageFolder is where the sources of Cluster API's specs are.
func packageFolder(t *testing.T) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api/test/e2e")
	list.Env = append(os.Environ(), "GOWORK=off")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// specsIn are the functions of a package whose names end in Spec.
func specsIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range parsed.Decls {
			function, is := declared.(*ast.FuncDecl)
			if is && function.Recv == nil && function.Name.IsExported() && strings.HasSuffix(function.Name.Name, "Spec") {
				names = append(names, function.Name.Name)
			}
		}
	}
	return names
}
