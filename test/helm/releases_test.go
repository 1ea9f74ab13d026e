package helm

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/charts"
	"github.com/macfleet/macfleet/internal/startup"
	"github.com/macfleet/macfleet/internal/uninstall"
	"github.com/macfleet/macfleet/sandbox/cluster"
)

// TestChartWithoutClusterAPI: Helm would say which kinds it does not know.
func TestChartWithoutClusterAPI(t *testing.T) {
	p := startPlane(t, cluster.Options{WithoutCore: true})
	said, refused := p.run(t.Context(), install()...)
	if want := "this cluster has no Cluster API of the contract v1beta2, which macfleet needs"; !refused || !strings.Contains(said, want) {
		t.Errorf("helm said %q; it should say %q", said, want)
	}
}

// secondRelease: another team's, with the namespace and the manager of its own. The one
// name that both have is of the cluster.
func (p *plane) secondRelease() {
	p.install()
	const theirs = "other-system"
	p.must(p.client.Create(p.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: theirs}}))
	args := []string{"install", "other", chart, "--set", "fleets.builders.zone=fr-par-1", "--set", "manager.replicas=0"}
	said, refused := p.runIn(p.Context(), theirs, args...)
	if want := "the RuntimeClass macos is of the release macfleet-system/macfleet"; !refused || !strings.Contains(said, want) {
		p.Errorf("helm said %q; it should say %q", said, want)
	}
	if said, refused := p.runIn(p.Context(), theirs, append(args, "--set", "runtimeClass.enabled=false")...); refused {
		p.Fatalf("two releases are not to be had: %s", said)
	}
	for namespace, name := range map[string]string{namespace: "macfleet-builders", theirs: "other-macfleet-builders"} {
		p.must(p.client.Get(p.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &infrav1.MacNodeProfile{}))
	}
	// What is left of one works without the other.
	if said, refused := p.runIn(p.Context(), theirs, "uninstall", "other", "--no-hooks"); refused {
		p.Fatal(said)
	}
	if said, refused := p.run(p.Context(), "upgrade", "macfleet", chart, "--reuse-values", "--no-hooks"); refused {
		p.Errorf("after the other has gone: %s", said)
	}
	p.uninstall()
}

// withoutItsCRDs: somebody deleted them by hand, and with them all that the hook looks for.
func (p *plane) withoutItsCRDs() {
	p.install()
	p.deleteCRDs()
	hook := p.newClient(p.hookConfig("uninstall-hook.yaml"))
	for _, list := range []client.ObjectList{&infrav1.ScalewayAppleSiliconHostList{}, &infrav1.ScalewayAppleSiliconMachineList{}} {
		var err error // the API server serves a kind for a moment after its CRD is gone
		p.await("a List of a kind that is gone, which the hook takes for that", func() bool {
			err = hook.List(p.Context(), list)
			return err != nil
		})
		if !uninstall.KindGone(err) {
			p.Errorf("the hook takes %v (%T) for something else", err, err)
		}
	}
	if said, refused := p.run(p.Context(), "uninstall", "macfleet", "--no-hooks"); refused {
		p.Error(said)
	}
	p.install() // which brings the CRDs back
	p.uninstall()
}

// olderRelease upgrades from a chart of an older version and goes back, across CRDs that
// differ: the older one is this chart with less in its CRDs.
func (p *plane) olderRelease() {
	older, oldCRDs := p.olderChart("0.0.9")
	p.upgradeFrom(older)
	host := &infrav1.ScalewayAppleSiliconHost{
		ObjectMeta: metav1.ObjectMeta{Name: "fr-par-1-22222222-2222-2222-2222-222222222222"},
		Spec:       infrav1.ScalewayAppleSiliconHostSpec{ServerID: "22222222-2222-2222-2222-222222222222", Zone: "fr-par-1", Maintenance: &infrav1.Maintenance{Reason: "new SSD"}},
	}
	strictly := &client.CreateOptions{FieldValidation: metav1.FieldValidationStrict} // the older kind would drop a field
	p.await("the newer kinds", func() bool { return p.client.Create(p.Context(), host.DeepCopy(), strictly) == nil })

	p.rollBack()
	p.must(p.client.Get(p.Context(), client.ObjectKeyFromObject(host), host))
	if host.Spec.Maintenance == nil {
		p.Error("a field is lost that the older release did not know")
	}
	if later, err := startup.CheckCRDs(p.Context(), p.client, oldCRDs); err != nil || len(later) == 0 {
		p.Errorf("the older manager with the newer CRDs: %v, of which it tells %q; it should start", err, later)
	}
	p.must(p.client.Delete(p.Context(), host))
	p.uninstall()
	// Helm applies a chart's CRDs when it installs it: over those of an upgrade it must not.
	if said, refused := p.run(p.Context(), "install", "macfleet", older); !refused || !strings.Contains(said, "crd-version") {
		p.Errorf("the kinds of an older release replace newer ones: %s", said)
	}
}

// releaseBefore upgrades from the chart of the last tag before this commit, and goes back.
func (p *plane) releaseBefore() {
	tag, err := exec.CommandContext(p.Context(), "git", "describe", "--tags", "--match", "v*", "--abbrev=0", "HEAD^").Output()
	if err != nil {
		p.Skip("no release before this commit is tagged here")
	}
	release, dir := strings.TrimSpace(string(tag)), p.TempDir()
	packed := filepath.Join(dir, "chart.tar")
	for _, command := range []*exec.Cmd{
		exec.CommandContext(p.Context(), "git", "-C", filepath.Join("..", ".."), "archive", "--output", packed, release, "charts/macfleet"),
		exec.CommandContext(p.Context(), "tar", "-xf", packed, "-C", dir),
	} {
		if said, err := command.CombinedOutput(); err != nil {
			p.Fatalf("taking the chart of %s: %v: %s", release, err, said)
		}
	}
	p.upgradeFrom(filepath.Join(dir, "charts", "macfleet"))
	p.rollBack()
	p.uninstall()
}

// upgradeFrom installs an older chart where no macfleet was, and upgrades it.
func (p *plane) upgradeFrom(older string) {
	p.Helper()
	p.deleteCRDs()
	if said, refused := p.run(p.Context(), "install", "macfleet", older, "--set", "fleets.builders.zone=fr-par-1", "--set", "manager.replicas=0"); refused {
		p.Fatal(said)
	}
	p.report("macfleet-builders")
	own, err := charts.CRDs()
	p.must(err)
	p.must(startup.ApplyCRDs(p.Context(), p.client, own, func(string) {})) // as the hook's Job does
	if said, refused := p.run(p.Context(), "upgrade", "macfleet", chart, "--reset-then-reuse-values", "--no-hooks", "--wait", "--timeout", "5m"); refused {
		p.Fatalf("the upgrade: %s", said)
	}
}

func (p *plane) rollBack() {
	p.Helper()
	if said, refused := p.run(p.Context(), "rollback", "macfleet", "1", "--no-hooks", "--wait", "--timeout", "5m"); refused {
		p.Fatalf("the rollback: %s", said)
	}
}

// unreadyFleet: a change that its manager has not rolled out fails the upgrade that waits
// for it, by name, and the way back ends.
func (p *plane) unreadyFleet() {
	p.install()
	p.report("macfleet-builders")
	upgrade := []string{"upgrade", "macfleet", chart, "--reuse-values", "--no-hooks", "--set", "fleets.builders.profile.maxVMs=1", "--wait", "--timeout", "15s"}
	said, refused := p.run(p.Context(), upgrade...)
	if !refused || !strings.Contains(said, "MacNodeProfile/macfleet-system/macfleet-builders not ready") {
		p.Errorf("helm --wait did not wait for the change: %s", said)
	}
	if said, refused := p.run(p.Context(), "rollback", "macfleet", "1", "--no-hooks"); refused {
		p.Fatal(said)
	}
	p.report("macfleet-builders")
	profile := &infrav1.MacNodeProfile{}
	p.must(p.client.Get(p.Context(), client.ObjectKey{Namespace: namespace, Name: "macfleet-builders"}, profile))
	if profile.Spec.Node.MaxVMs != 2 {
		p.Errorf("after the rollback a Mac has %d VMs", profile.Spec.Node.MaxVMs)
	}
	p.uninstall()
}

// forgottenFleet: helm upgrade with a single value forgets all others, and with them the
// fleets, whose Macs would be wiped.
func (p *plane) forgottenFleet() {
	if said, refused := p.run(p.Context(), install("--set", "fleets.builders.replicas=2")...); refused {
		p.Fatal(said)
	}
	key := client.ObjectKey{Namespace: namespace, Name: "macfleet-builders"}
	upgrade := []string{"upgrade", "macfleet", chart, "--no-hooks", "--set", "manager.replicas=0"}
	said, refused := p.run(p.Context(), upgrade...)
	if want := "the values have no fleet named macfleet-builders, whose 2 Macs would be wiped"; !refused || !strings.Contains(said, want) || !strings.Contains(said, "--reset-then-reuse-values") {
		p.Errorf("helm said %q; it should say %q", said, want)
	}
	fleet := &clusterv1.MachineDeployment{}
	p.must(p.client.Get(p.Context(), key, fleet))
	if said, refused := p.run(p.Context(), append(upgrade, "--reset-then-reuse-values")...); refused {
		p.Errorf("an upgrade that forgets nothing: %s", said)
	}
	p.await("the fleet to have no Macs", func() bool {
		p.must(p.client.Get(p.Context(), key, fleet))
		if ptr.Deref(fleet.Spec.Replicas, 0) == 0 {
			return ptr.Deref(fleet.Status.Replicas, 0) == 0
		}
		fleet.Spec.Replicas = ptr.To[int32](0)
		_ = p.client.Update(p.Context(), fleet) // core writes it, too: then once more
		return false
	})
	if said, refused := p.run(p.Context(), upgrade...); refused {
		p.Errorf("a fleet without Macs cannot be given up: %s", said)
	}
	p.await("the fleet to go", func() bool { return apierrors.IsNotFound(p.client.Get(p.Context(), key, fleet)) })
	p.uninstall()
}

// formerKubeconfig: an ExternalSecret is a hook's, and stays where the manager is to mint the
// kubeconfig; its token ends with the Secret capi-remote-token.
func (p *plane) formerKubeconfig() {
	const plural, kind = "externalsecrets", "ExternalSecret"
	open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".external-secrets.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "external-secrets.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &open},
			}},
		},
	}
	p.must(p.client.Create(p.Context(), crd))
	defer func() { p.must(p.client.Delete(p.Context(), crd)) }()
	former := &unstructured.Unstructured{}
	former.SetAPIVersion("external-secrets.io/v1")
	former.SetKind(kind)
	former.SetNamespace(namespace)
	former.SetName("macfleet-kubeconfig")
	p.await("the kind", func() bool { return p.client.Create(p.Context(), former) == nil })
	found, err := discovery.NewDiscoveryClientForConfig(p.cluster.Config())
	p.must(err)
	p.await("its group in the list that Helm reads", func() bool {
		list, err := found.ServerGroups()
		return err == nil && slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == crd.Spec.Group })
	})
	if said, refused := p.run(p.Context(), install()...); !refused || !strings.Contains(said, "delete externalsecret,secret macfleet-kubeconfig") {
		p.Errorf("helm said %q; it should say what to delete", said)
	}
	p.must(p.client.Delete(p.Context(), former))
	p.install()
	p.uninstall()
}

func (p *plane) install() {
	p.Helper()
	if said, refused := p.run(p.Context(), install()...); refused {
		p.Fatal(said)
	}
}

func (p *plane) uninstall() {
	p.Helper()
	if said, refused := p.run(p.Context(), "uninstall", "macfleet", "--no-hooks", "--wait", "--timeout", "5m"); refused {
		p.Fatal(said)
	}
}

// report writes what a manager does that has rolled a profile out.
func (p *plane) report(name string) {
	p.Helper()
	profile := &infrav1.MacNodeProfile{}
	p.must(p.client.Get(p.Context(), client.ObjectKey{Namespace: namespace, Name: name}, profile))
	p.must(p.writeReady(p.Context(), profile))
}

func (p *plane) writeReady(ctx context.Context, profile *infrav1.MacNodeProfile) error {
	profile.Status.ObservedGeneration = profile.Generation
	profile.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now(), ObservedGeneration: profile.Generation}}
	return p.client.Status().Update(ctx, profile)
}

// deleteCRDs leaves a cluster that never had macfleet.
func (p *plane) deleteCRDs() {
	p.Helper()
	own, err := charts.CRDs()
	p.must(err)
	for _, crd := range own {
		p.must(client.IgnoreNotFound(p.client.Delete(p.Context(), crd)))
		p.await("the CRDs to go", func() bool {
			return apierrors.IsNotFound(p.client.Get(p.Context(), client.ObjectKeyFromObject(crd), crd))
		})
	}
}

// olderChart is this chart of an older version, and its CRDs: of that version, and without
// a field.
func (p *plane) olderChart(version string) (dir string, crds []*unstructured.Unstructured) {
	p.Helper()
	dir = filepath.Join(p.TempDir(), "macfleet")
	p.must(os.CopyFS(dir, os.DirFS(chart)))
	file := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(file)
	p.must(err)
	p.must(os.WriteFile(file, []byte(strings.NewReplacer("version: 0.1.0", "version: "+version, "appVersion: v0.1.0", "appVersion: v"+version).Replace(string(text))), 0o600))
	crds, err = charts.CRDs()
	p.must(err)
	for _, crd := range crds {
		annotations := crd.GetAnnotations()
		annotations[startup.VersionAnnotation], annotations[startup.DigestAnnotation] = "v"+version, "0"
		crd.SetAnnotations(annotations)
		if crd.GetName() == crdName("scalewayapplesiliconhosts") {
			p.dropMaintenance(crd)
		}
		plural, group, _ := strings.Cut(crd.GetName(), ".")
		text, err := yaml.Marshal(crd.Object)
		p.must(err)
		p.must(os.WriteFile(filepath.Join(dir, "crds", group+"_"+plural+".yaml"), text, 0o600))
	}
	return dir, crds
}

func (p *plane) dropMaintenance(crd *unstructured.Unstructured) {
	p.Helper()
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	p.must(err)
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "maintenance")
	p.must(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
}
