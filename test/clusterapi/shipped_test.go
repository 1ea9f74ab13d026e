package clusterapi

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/test/e2e"
)

var _ = Describe("[shipped] QuickStartSpec, a fleet:", func() {
	e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
		return e2e.QuickStartSpecInput{
			E2EConfig: config, ClusterctlConfigPath: *repository, BootstrapClusterProxy: proxy, ArtifactFolder: folder("quick-start"),
			InfrastructureProvider: provider,
			ControlPlaneWaiters:    waiters, PostNamespaceCreated: admit, PostMachinesProvisioned: resilient(false),
		}
	})
})

var _ = Describe("[shipped] QuickStartSpec, a ClusterClass:", func() {
	e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
		return e2e.QuickStartSpecInput{
			E2EConfig: config, ClusterctlConfigPath: *repository, BootstrapClusterProxy: proxy, ArtifactFolder: folder("quick-start-topology"),
			InfrastructureProvider: provider, Flavor: ptr.To("topology"),
			ControlPlaneWaiters: waiters, PostNamespaceCreated: admit, PostMachinesProvisioned: resilient(true),
		}
	})
})

var _ = Describe("[shipped] MachineDeploymentScaleSpec:", func() {
	e2e.MachineDeploymentScaleSpec(ctx, func() e2e.MachineDeploymentScaleSpecInput {
		return e2e.MachineDeploymentScaleSpecInput{
			E2EConfig: config, ClusterctlConfigPath: *repository, BootstrapClusterProxy: proxy, ArtifactFolder: folder("md-scale"),
			InfrastructureProvider: provider, ControlPlaneWaiters: waiters, PostNamespaceCreated: admit,
		}
	})
})

var _ = Describe("[shipped] MachineDeploymentRemediationSpec:", func() {
	e2e.MachineDeploymentRemediationSpec(ctx, func() e2e.MachineDeploymentRemediationSpecInput {
		return e2e.MachineDeploymentRemediationSpecInput{
			E2EConfig: config, ClusterctlConfigPath: *repository, BootstrapClusterProxy: proxy, ArtifactFolder: folder("md-remediation"),
			InfrastructureProvider: provider, Flavor: ptr.To("remediation"), ControlPlaneWaiters: waiters, PostNamespaceCreated: admit,
		}
	})
})

var _ = Describe("[shipped] ClusterDeletionSpec:", func() {
	e2e.ClusterDeletionSpec(ctx, func() e2e.ClusterDeletionSpecInput {
		return e2e.ClusterDeletionSpecInput{
			E2EConfig: config, ClusterctlConfigPath: *repository, BootstrapClusterProxy: proxy, ArtifactFolder: folder("cluster-deletion"),
			InfrastructureProvider: provider, Flavor: ptr.To("topology"),
			ControlPlaneWaiters: waiters, PostNamespaceCreated: admit,
			// Workers first, of which Machines hold the others; then the control plane, then the zones.
			ClusterDeletionPhases: []e2e.ClusterDeletionPhase{
				{ObjectFilter: of("Machine", "MachineSet", "MachineDeployment"), BlockingObjectFilter: of("Machine")},
				{ObjectFilter: of("ExternalControlPlane"), BlockingObjectFilter: of("ExternalControlPlane")},
				{ObjectFilter: of("ScalewayAppleSiliconCluster"), BlockingObjectFilter: of("ScalewayAppleSiliconCluster")},
			},
		}
	})
})

func of(kinds ...string) func(corev1.ObjectReference, []metav1.OwnerReference) bool {
	return func(object corev1.ObjectReference, _ []metav1.OwnerReference) bool {
		return slices.Contains(kinds, object.Kind)
	}
}
