package clusterapi

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/macfleet/macfleet/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

type (
	ownersByKind     = map[string]func(types.NamespacedName, []metav1.OwnerReference) error
	finalizersByKind = map[string]func(types.NamespacedName) []string
)

// Whom objects of ours are owned by.
var (
	byCluster        = metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"}
	byTopology       = metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Controller: ptr.To(true)}
	byClass          = metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "ClusterClass"}
	byMachine        = metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Controller: ptr.To(true)}
	byControlPlane   = metav1.OwnerReference{APIVersion: controlplanev1.GroupVersion.String(), Kind: "ExternalControlPlane", Controller: ptr.To(true)}
	byInfraMachine   = metav1.OwnerReference{APIVersion: infrav1.GroupVersion.String(), Kind: "ScalewayAppleSiliconMachine"}
	byBootstrapOfMac = metav1.OwnerReference{APIVersion: bootstrapv1.GroupVersion.String(), Kind: "MacBootstrapConfig", Controller: ptr.To(true)}
)

// owners says who owns objects of our kinds. What no Cluster owns is moved by a label. A
// topology controls what it makes.
func owners(topology bool) ownersByKind {
	cluster := byCluster
	if topology {
		cluster = byTopology
	}
	return ownersByKind{
		"ScalewayAppleSiliconCluster":             exactly(cluster),
		"ScalewayAppleSiliconClusterTemplate":     exactly(byClass),
		"ScalewayAppleSiliconMachine":             exactly(byMachine),
		"ScalewayAppleSiliconMachineTemplate":     oneOf(byCluster, byClass),
		"ScalewayAppleSiliconRemediationTemplate": exactly(),
		"MacNodeProfile":                          exactly(),
		"ExternalControlPlane":                    exactly(cluster),
		"ExternalControlPlaneTemplate":            exactly(byClass),
		"MacBootstrapConfig":                      exactly(byMachine),
		"MacBootstrapConfigTemplate":              oneOf(byCluster, byClass),
		"Secret":                                  secret,
	}
}

func exactly(owners ...metav1.OwnerReference) func(types.NamespacedName, []metav1.OwnerReference) error {
	return func(_ types.NamespacedName, got []metav1.OwnerReference) error {
		return framework.HasExactOwners(got, owners...)
	}
}

func oneOf(owners ...metav1.OwnerReference) func(types.NamespacedName, []metav1.OwnerReference) error {
	return func(_ types.NamespacedName, got []metav1.OwnerReference) error {
		var err error
		for _, owner := range owners {
			if err = framework.HasExactOwners(got, owner); err == nil {
				return nil
			}
		}
		return err
	}
}

// secret is by its name: a fleet's keys and the one that names no bootstrap data are nobody's.
func secret(name types.NamespacedName, got []metav1.OwnerReference) error {
	switch {
	case strings.HasSuffix(name.Name, "-kubeconfig"):
		return framework.HasExactOwners(got, byControlPlane)
	case strings.HasSuffix(name.Name, "-bootstrap"):
		return framework.HasExactOwners(got, byInfraMachine)
	case strings.HasSuffix(name.Name, "-no-bootstrap-data") && len(got) > 0:
		return framework.HasExactOwners(got, byBootstrapOfMac)
	}
	return framework.HasExactOwners(got)
}

// finalizers of our kinds; of the others there must be none.
var finalizers = finalizersByKind{
	"ScalewayAppleSiliconMachine": func(types.NamespacedName) []string { return []string{infrav1.MachineFinalizer} },
}

// resilient takes owners and finalizers from all objects of a Cluster, spoils their versions,
// and sees them come back; and sees nothing change once all is done.
func resilient(topology bool) func(framework.ClusterProxy, string, string) {
	return func(on framework.ClusterProxy, namespace, cluster string) {
		of := clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster)
		expected := []ownersByKind{framework.CoreOwnerReferenceAssertion, owners(topology)}
		kept := []finalizersByKind{framework.CoreFinalizersAssertionWithLegacyClusters, finalizers}
		if topology {
			kept[0] = framework.CoreFinalizersAssertionWithClassyClusters
		}
		By("Owners that are taken away come back")
		framework.ValidateOwnerReferencesResilience(ctx, on, namespace, cluster, of, expected...)
		By("Owners of another version are brought up to date")
		framework.ValidateOwnerReferencesOnUpdate(ctx, on, namespace, cluster, of, expected...)
		By("Finalizers that are taken away come back")
		framework.ValidateFinalizersResilience(ctx, on, namespace, cluster, of, kept...)
		By("Nothing changes at rest")
		awaitRolledOut(on, namespace)
		framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
			ClusterProxy: on, Namespace: namespace, OwnerGraphFilterFunction: of,
			WaitToBecomeStable: config.GetIntervals("", "wait-resource-version-stable"),
			WaitToRemainStable: config.GetIntervals("", "wait-resource-version-rest"),
		})
	}
}

// awaitRolledOut waits until the profile's Macs have soaked: until then its status changes.
func awaitRolledOut(on framework.ClusterProxy, namespace string) {
	Eventually(func(g Gomega) {
		profiles := &infrav1.MacNodeProfileList{}
		g.Expect(on.GetClient().List(ctx, profiles, client.InNamespace(namespace))).To(Succeed())
		for i := range profiles.Items {
			g.Expect(conditions.IsTrue(&profiles.Items[i], infrav1.RolledOutCondition)).To(BeTrue(), "%+v", profiles.Items[i].Status.Conditions)
		}
	}, within, "1s").Should(Succeed())
}
