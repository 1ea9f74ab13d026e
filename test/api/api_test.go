// Package api tries the kinds on a real API server: what CEL refuses, and what
// Cluster API's contract asks of the CRDs.
package api

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	bootstrapv1 "github.com/macfleet/macfleet/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/cluster"
)

// api is the client of a real API server with our CRDs.
var api client.Client

// apiConfig is how to reach it.
var apiConfig *rest.Config

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "api:", err)
		return 1
	}
	binaries, err := cluster.Build(context.Background(), cluster.BuildOptions{})
	if err != nil {
		return fail(err)
	}
	assets, err := os.MkdirTemp("", "mfapi")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(assets)
	if err := binaries.EnvtestAssets(assets); err != nil {
		return fail(err)
	}
	environment := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "charts", "macfleet", "crds"), filepath.Join(binaries.Manifests, "crds")},
		ErrorIfCRDPathMissing: true,
	}
	config, err := environment.Start()
	if err != nil {
		return fail(err)
	}
	apiConfig = config
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, nodev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme, bootstrapv1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fail(err)
		}
	}
	if api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fail(err)
	}
	if err := storeBeforePolicies(context.Background()); err != nil {
		return fail(err)
	}
	if err := installRights(context.Background(), config); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := environment.Stop(); err != nil {
		return fail(err)
	}
	return code
}

func newHost() *infrav1.ScalewayAppleSiliconHost {
	id := uuid.NewString()
	return &infrav1.ScalewayAppleSiliconHost{
		ObjectMeta: metav1.ObjectMeta{Name: "fr-par-1-" + id},
		Spec:       infrav1.ScalewayAppleSiliconHostSpec{ServerID: id, Zone: "fr-par-1"},
	}
}

func newMachine() *infrav1.ScalewayAppleSiliconMachine {
	return &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Name: "mac-" + uuid.NewString(), Namespace: "default"}}
}

// TestEditsAreRefused: nonsense by hand gets one sentence that says what is wrong.
func TestEditsAreRefused(t *testing.T) {
	release := func(token string) *infrav1.Release {
		return &infrav1.Release{Token: token, Policy: infrav1.Recycle, PoolPrefix: "tuist-pool-", RequestedAt: metav1.NowMicro()}
	}
	for name, c := range map[string]struct {
		object client.Object
		edit   func(client.Object)
		says   string
	}{
		"a host's serverID": {newHost(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconHost).Spec.ServerID = uuid.NewString()
		}, "never change"},
		"a host's zone": {newHost(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconHost).Spec.Zone = "fr-par-3"
		}, "never change"},
		"a release without a claim": {newHost(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconHost).Spec.Release = release("t")
		}, "token of the claim"},
		"a release of another claim": {newHost(), func(o client.Object) {
			h := o.(*infrav1.ScalewayAppleSiliconHost)
			h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "default", Name: "m", Token: "mine"}
			h.Spec.Release = release("other")
		}, "token of the claim"},
		"a providerID that changes": {machineWithProviderID(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconMachine).Spec.ProviderID = "scw-applesilicon://fr-par-1/" + uuid.NewString()
		}, "written once"},
		"a providerID that goes": {machineWithProviderID(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconMachine).Spec.ProviderID = ""
		}, "written once"},
		"a hostRef of a provisioned Machine": {provisionedMachine(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconMachine).Spec.HostRef = nil
		}, "has its Mac"},
		"an epoch before the first": {newHost(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconHost).Spec.Record.InstallEpoch = -4
		}, "installEpoch"},
		"a point release": {newMachine(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconMachine).Spec.OS = "tahoe-26.1"
		}, "spec.os"},
		"a prefix without a dash": {newMachine(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconMachine).Spec.AdoptPoolPrefix = "tuist"
		}, "spec.adoptPoolPrefix"},
		"a prefix of one letter": {newMachine(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconMachine).Spec.AdoptPoolPrefix = "t-"
		}, "spec.adoptPoolPrefix"},
		"a template's content": {newTemplate(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconMachineTemplate).Spec.Template.Spec.Type = "M4-M"
		}, "immutable"},
		"a label no node may set": {newProfile(), func(o client.Object) {
			o.(*infrav1.MacNodeProfile).Spec.Node.Labels = map[string]infrav1.LabelValue{"node-role.kubernetes.io/mac": ""}
		}, "may not set"},
		"three guests at once": {newProfile(), func(o client.Object) {
			o.(*infrav1.MacNodeProfile).Spec.Node.MaxVMs = 3
		}, "less than or equal to 2"},
		"a Cluster without zones": {newCluster(), func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconCluster).Spec.Zones = []string{}
		}, "spec.zones"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := api.Create(t.Context(), c.object); err != nil {
				t.Fatalf("before the edit: %v", err)
			}
			c.edit(c.object)
			err := api.Update(t.Context(), c.object)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want a refusal that says %q", err, c.says)
			}
		})
	}
}

// TestOrdinaryWritesPass keeps the rules from refusing what the system does.
func TestOrdinaryWritesPass(t *testing.T) {
	host := newHost()
	must(t, api.Create(t.Context(), host))
	host.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "default", Name: "m", Token: "mine"}
	must(t, api.Update(t.Context(), host))
	host.Spec.Release = &infrav1.Release{Token: "mine", Policy: infrav1.Recycle, PoolPrefix: "tuist-pool-", RequestedAt: metav1.NowMicro()}
	must(t, api.Update(t.Context(), host))
	host.Spec.ClaimRef, host.Spec.Release = nil, nil
	must(t, api.Update(t.Context(), host))

	machine := newMachine()
	must(t, api.Create(t.Context(), machine))
	machine.Spec.HostRef = &infrav1.HostReference{Name: host.Name, ClaimToken: "mine"}
	machine.Spec.ProviderID = "scw-applesilicon://fr-par-1/" + host.Spec.ServerID
	must(t, api.Update(t.Context(), machine))
}

// TestAClaimNeedsTheVersionItWasDecidedOn: of two claims decided on one reading,
// the API server lets one through.
func TestAClaimNeedsTheVersionItWasDecidedOn(t *testing.T) {
	host := newHost()
	must(t, api.Create(t.Context(), host))
	first, second := host.DeepCopy(), host.DeepCopy()
	first.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "default", Name: "first", Token: "1"}
	second.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "default", Name: "second", Token: "2"}
	must(t, api.Update(t.Context(), first))
	if err := api.Update(t.Context(), second); err == nil {
		t.Error("both claims went through")
	}
}

func machineWithProviderID() *infrav1.ScalewayAppleSiliconMachine {
	m := newMachine()
	m.Spec.ProviderID = "scw-applesilicon://fr-par-1/" + uuid.NewString()
	return m
}

func provisionedMachine() *infrav1.ScalewayAppleSiliconMachine {
	m := machineWithProviderID()
	m.Spec.HostRef = &infrav1.HostReference{Name: "host", ClaimToken: "token"}
	return m
}

func newTemplate() *infrav1.ScalewayAppleSiliconMachineTemplate {
	t := &infrav1.ScalewayAppleSiliconMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t-" + uuid.NewString(), Namespace: "default"}}
	t.Spec.Template.Spec.Type = "M2-L"
	return t
}

func newProfile() *infrav1.MacNodeProfile {
	return &infrav1.MacNodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "p-" + uuid.NewString(), Namespace: "default"}}
}

func newCluster() *infrav1.ScalewayAppleSiliconCluster {
	return &infrav1.ScalewayAppleSiliconCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "c-" + uuid.NewString(), Namespace: "default"},
		Spec:       infrav1.ScalewayAppleSiliconClusterSpec{Zones: []string{"fr-par-1"}},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
