package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/charts"
	"github.com/macfleet/macfleet/internal/startup"
	"github.com/macfleet/macfleet/sandbox/cluster"
	"github.com/macfleet/macfleet/test/parttest"
)

const (
	namespace = "macfleet-system"
	patience  = 4 * time.Minute
)

var chart = filepath.Join("..", "..", "charts", "macfleet")

// plane is a real API server with Cluster API core, and the helm that installs there.
type plane struct {
	*testing.T
	cluster *cluster.Cluster
	client  client.Client
	helm    string
}

// TestChartOnAnAPIServer shares one control plane. No node is there: no Pod runs. Each case
// brings what it needs, and leaves no release behind.
func TestChartOnAnAPIServer(t *testing.T) {
	p := startPlane(t, cluster.Options{})
	for _, c := range parttest.Of(t, []struct {
		name string
		run  func(*plane)
	}{
		{"beside the first system it is refused", (*plane).refusedBesideTheFirstSystem},
		{"wait waits for the first status", (*plane).waitsForTheFirstStatus},
		{"it is not deleted before its hook has looked", (*plane).notDeletedUnseen},
		{"it is deleted without its CRDs", (*plane).withoutItsCRDs},
		{"the hook applies CRDs, and no more", (*plane).hookAppliesCRDs},
		{"there and back across CRDs that differ", (*plane).olderRelease},
		{"there and back from the release before", (*plane).releaseBefore},
		{"an upgrade waits for what changes, and can be taken back", (*plane).unreadyFleet},
		{"two releases", (*plane).secondRelease},
		{"an upgrade forgets no fleet that has Macs", (*plane).forgottenFleet},
		{"a kubeconfig of a store is not written over", (*plane).formerKubeconfig},
	}) {
		t.Run(c.name, func(t *testing.T) { c.run(p.on(t)) })
	}
}

func startPlane(t *testing.T, options cluster.Options) *plane {
	t.Helper()
	binary, err := Binary(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	binaries, err := cluster.Build(t.Context(), cluster.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	options.Binaries, options.Dir = binaries, t.TempDir()
	started, err := cluster.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p := &plane{T: t, cluster: started, helm: binary}
	p.client = p.newClient(started.Config())
	p.must(p.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	return p
}

// on is the same plane for a subtest.
func (p *plane) on(t *testing.T) *plane {
	sub := *p
	sub.T = t
	return &sub
}

func (p *plane) newClient(config *rest.Config) client.Client {
	p.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, coordinationv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
		apiextensionsv1.AddToScheme, infrav1.AddToScheme, clusterv1.AddToScheme,
	} {
		p.must(add(scheme))
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	p.must(err)
	return c
}

func (p *plane) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// run is one helm command; said is what it prints, refused that it failed.
func (p *plane) run(ctx context.Context, args ...string) (said string, refused bool) {
	return p.runIn(ctx, namespace, args...)
}

func (p *plane) runIn(ctx context.Context, namespace string, args ...string) (said string, refused bool) {
	p.await("all kinds to be listed", func() bool { // a moment after their CRDs are established
		said, refused = p.runOnce(ctx, namespace, args...)
		return !refused || !strings.Contains(said, "no matches for kind")
	})
	return said, refused
}

func (p *plane) runOnce(ctx context.Context, namespace string, args ...string) (said string, refused bool) {
	args = append(args, "--namespace", namespace, "--kubeconfig", p.cluster.Kubeconfig())
	cmd := exec.CommandContext(ctx, p.helm, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return out.String(), true
	}
	p.must(err)
	return out.String(), false
}

// install are the arguments of a first install: no manager, for no node would run
// it, and so nobody who writes the profile's status.
func install(more ...string) []string {
	return append([]string{
		"install", "macfleet", chart, "--set", "fleets.builders.zone=fr-par-1", "--set", "manager.replicas=0",
	}, more...)
}

// waitsForTheFirstStatus: a profile that nobody has looked at yet is not ready, so
// that --wait ends when the manager has seen it, and not before. What else is slow on a
// busy machine may be not ready either; that nothing but the profile stays so shows the
// second install, which ends well.
func (p *plane) waitsForTheFirstStatus() {
	said, refused := p.run(p.Context(), install("--wait", "--timeout", "20s")...)
	if !refused || !strings.Contains(said, "MacNodeProfile/macfleet-system/macfleet-builders not ready") {
		p.Fatalf("helm --wait did not wait for the profile: %s", said)
	}
	// No node is there to run the hook that looks for Macs first.
	if said, refused := p.run(p.Context(), "uninstall", "macfleet", "--wait", "--timeout", "5m", "--no-hooks"); refused {
		p.Fatal(said)
	}

	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		said, refused := p.run(ctx, install("--wait", "--timeout", patience.String())...)
		if !refused {
			said = ""
		}
		ended <- said
	}()
	profile := &infrav1.MacNodeProfile{}
	p.must(wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := p.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "macfleet-builders"}, profile)
		return err == nil, client.IgnoreNotFound(err)
	}))
	if got := profile.Status.ObservedGeneration; got != -1 {
		p.Errorf("a new profile's observedGeneration is %d", got)
	}
	p.must(p.writeReady(ctx, profile))
	if said := <-ended; said != "" {
		p.Errorf("helm --wait did not end well once the profile was ready: %s", said)
	}
	p.uninstall()
}

// refusedBesideTheFirstSystem: wherever the first system's manager runs, by its
// Deployment or by its lease.
func (p *plane) refusedBesideTheFirstSystem() {
	labels := map[string]string{"app": "provider"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "tuist-provider", Namespace: metav1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "manager", Image: "ghcr.io/tuist/cluster-api-provider-scaleway-applesilicon:0.8.0"}},
			}},
		},
	}
	p.must(p.client.Create(p.Context(), deployment))
	said, refused := p.run(p.Context(), install("--dry-run=server")...)
	if want := "type: kubectl -n default scale deployment tuist-provider --replicas=0"; !refused || !strings.Contains(said, want) {
		p.Errorf("helm said %q; it should say %q", said, want)
	}
	p.startRefused("default", "Deployment default/tuist-provider, is to run beside this one")
	base := deployment.DeepCopy()
	deployment.Spec.Replicas = ptr.To[int32](0)
	p.must(p.client.Patch(p.Context(), deployment, client.MergeFrom(base)))

	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: startup.FirstSystemLease, Namespace: metav1.NamespaceDefault},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("tuist-0_1"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NowMicro())},
	}
	p.must(p.client.Create(p.Context(), lease))
	said, refused = p.run(p.Context(), install("--dry-run=server")...)
	if want := "holds the lease default/" + startup.FirstSystemLease; !refused || !strings.Contains(said, want) {
		p.Errorf("helm said %q; it should say %q", said, want)
	}
	p.startRefused("elsewhere", "it holds the lease default/"+startup.FirstSystemLease)
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-2 * time.Hour)))
	p.must(p.client.Update(p.Context(), lease))
	// That it is stopped now, the installs of later cases show to Helm.
	p.must(startup.CheckFirstSystem(p.Context(), p.client, "default", time.Now()))
}

func (p *plane) startRefused(own, says string) {
	p.Helper()
	err := startup.CheckFirstSystem(p.Context(), p.client, own, time.Now())
	if refusal, refused := errors.AsType[*startup.Refusal](err); !refused || !strings.Contains(refusal.Error(), says) {
		p.Errorf("%v; it should say %q", err, says)
	}
}

// notDeletedUnseen: a release whose hook has not said that nothing is left stays as it
// is, and can be deleted later. What the hook reads, its rights suffice for.
func (p *plane) notDeletedUnseen() {
	p.install()
	said, refused := p.run(p.Context(), "uninstall", "macfleet", "--timeout", "20s")
	if !refused || !strings.Contains(said, "macfleet-uninstall not ready") {
		p.Errorf("helm uninstall did not wait for its hook: %s", said)
	}
	p.must(p.client.Get(p.Context(), client.ObjectKey{Namespace: namespace, Name: "macfleet-builders"}, &infrav1.MacNodeProfile{}))
	hook := p.newClient(p.hookConfig("uninstall-hook.yaml"))
	p.must(hook.List(p.Context(), &infrav1.ScalewayAppleSiliconHostList{}))
	p.must(hook.List(p.Context(), &infrav1.ScalewayAppleSiliconMachineList{}, client.InNamespace(namespace)))
	p.must(hook.List(p.Context(), &clusterv1.MachineList{}, client.InNamespace(namespace)))
	p.keptAfterARefusal()
	if said, refused := p.run(p.Context(), "uninstall", "macfleet", "--no-hooks"); refused {
		p.Error(said)
	}
}

// keptAfterARefusal: Helm counts the release as being uninstalled from then on, which a
// rollback to its last revision ends, as docs/install.md says.
func (p *plane) keptAfterARefusal() {
	p.Helper()
	upgrade := []string{"upgrade", "macfleet", chart, "--reset-then-reuse-values", "--no-hooks"}
	if said, refused := p.run(p.Context(), upgrade...); !refused || !strings.Contains(said, "has no deployed releases") {
		p.Errorf("helm upgrade after a refused helm uninstall: %s", said)
	}
	if said, refused := p.run(p.Context(), "rollback", "macfleet", "1", "--force-conflicts"); refused {
		p.Fatal(said)
	}
	if said, refused := p.run(p.Context(), upgrade...); refused {
		p.Errorf("helm upgrade after the rollback: %s", said)
	}
}

// hookAppliesCRDs does what the hook's Job does, with the hook's own rights: no node
// is there to run it.
func (p *plane) hookAppliesCRDs() {
	p.install() // which brings the CRDs
	p.uninstall()
	defer p.deleteCRDs()
	hook := p.newClient(p.hookConfig("crds-hook.yaml"))
	own, err := charts.CRDs()
	p.must(err)
	apply := func() (string, error) {
		var said []string
		err := startup.ApplyCRDs(p.Context(), hook, own, func(text string) { said = append(said, text) })
		return strings.Join(said, "\n"), err
	}
	if said, err := apply(); err != nil || strings.Contains(said, "is applied") {
		p.Errorf("CRDs of this build: %v, %s", err, said)
	}

	p.changeCRD("scalewayapplesiliconhosts", func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations[startup.VersionAnnotation], crd.Annotations[startup.DigestAnnotation] = "v0.0.9", "0"
		delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "maintenance")
	})
	p.must(p.client.Delete(p.Context(), p.crd("scalewayapplesiliconremediationtemplates")))
	p.await("the CRD to go", func() bool { return p.gone("scalewayapplesiliconremediationtemplates") })
	p.checkRefused("the CRD " + crdName("scalewayapplesiliconhosts") + " is of v0.0.9 and this manager of v0.1.0")
	said, err := apply()
	if err != nil || strings.Count(said, "is applied") != 2 {
		p.Errorf("older CRDs: %v, %s", err, said)
	}
	if _, known := p.crd("scalewayapplesiliconhosts").Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["maintenance"]; !known {
		p.Error("spec.maintenance is still missing")
	}
	later, err := startup.CheckCRDs(p.Context(), p.client, own)
	if err != nil || len(later) != 0 {
		p.Errorf("after the hook: %v, %v", later, err)
	}

	// Where one must not be touched, none is.
	p.changeCRD("macnodeprofiles", func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations[startup.VersionAnnotation], crd.Annotations[startup.DigestAnnotation] = "v99.0.0", "0"
	})
	p.changeCRD("scalewayapplesiliconclusters", func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations[startup.VersionAnnotation], crd.Annotations[startup.DigestAnnotation] = "v0.0.9", "0"
	})
	if said, err := apply(); err == nil || !strings.Contains(err.Error(), "is of v99.0.0, newer than this build's v0.1.0") || strings.Contains(said, "is applied") {
		p.Errorf("a newer CRD: %v, %s", err, said)
	}
	p.changeCRD("macnodeprofiles", func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Annotations = nil })
	if said, err := apply(); err == nil || !strings.Contains(err.Error(), "is not macfleet's") || strings.Contains(said, "is applied") {
		p.Errorf("another system's CRD: %v, %s", err, said)
	}
	if got := p.crd("scalewayapplesiliconclusters").Annotations[startup.VersionAnnotation]; got != "v0.0.9" {
		p.Errorf("an older CRD was applied beside it: %s", got)
	}
	p.checkRefused("is not macfleet's")
}

func (p *plane) checkRefused(says string) {
	p.Helper()
	own, err := charts.CRDs()
	p.must(err)
	if _, err := startup.CheckCRDs(p.Context(), p.client, own); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), startup.ApplyCommand) {
		p.Errorf("%v; it should say %q and what to type", err, says)
	}
}

// hookConfig applies what the chart gives a hook, and is a client with no more.
func (p *plane) hookConfig(template string) *rest.Config {
	p.Helper()
	said, refused := p.run(p.Context(), "template", "macfleet", chart, "--show-only", "templates/"+template)
	if refused {
		p.Fatal(said)
	}
	account, role, binding := &corev1.ServiceAccount{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	for document := range strings.SplitSeq(said, "\n---\n") {
		for kind, object := range map[string]client.Object{"\nkind: ServiceAccount\n": account, "\nkind: ClusterRole\n": role, "\nkind: ClusterRoleBinding\n": binding} {
			if strings.Contains(document, kind) {
				p.must(yaml.Unmarshal([]byte(document), object))
				if err := p.client.Create(p.Context(), object); !apierrors.IsAlreadyExists(err) { // left by a hook that failed
					p.must(err)
				}
			}
		}
	}
	token := &authenticationv1.TokenRequest{}
	p.must(p.client.SubResource("token").Create(p.Context(), account, token))
	config := rest.AnonymousClientConfig(p.cluster.Config())
	config.BearerToken = token.Status.Token
	// The API server learns of rights by watching.
	hook, right := p.newClient(config), role.Rules[0]
	p.await("the hook's rights", func() bool {
		asked := authorizationv1.ResourceAttributes{Group: right.APIGroups[0], Resource: right.Resources[0], Verb: right.Verbs[0]}
		if len(right.ResourceNames) > 0 {
			asked.Name = right.ResourceNames[0]
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &asked}}
		return hook.Create(p.Context(), review) == nil && review.Status.Allowed
	})
	return config
}

func crdName(resource string) string {
	return fmt.Sprintf("%s.%s", resource, infrav1.GroupVersion.Group)
}

func (p *plane) crd(resource string) *apiextensionsv1.CustomResourceDefinition {
	p.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	p.must(p.client.Get(p.Context(), client.ObjectKey{Name: crdName(resource)}, crd))
	return crd
}

func (p *plane) gone(resource string) bool {
	err := p.client.Get(p.Context(), client.ObjectKey{Name: crdName(resource)}, &apiextensionsv1.CustomResourceDefinition{})
	return err != nil && client.IgnoreNotFound(err) == nil
}

func (p *plane) changeCRD(resource string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	p.Helper()
	p.await("the CRD to be changed", func() bool { // the API server writes conditions meanwhile
		crd := p.crd(resource)
		change(crd)
		return p.client.Update(p.Context(), crd) == nil
	})
}

func (p *plane) await(what string, done func() bool) {
	p.Helper()
	err := wait.PollUntilContextTimeout(p.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		p.Fatalf("waiting for %s: %v", what, err)
	}
}
