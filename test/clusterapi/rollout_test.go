package clusterapi

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("[framework] MachineDeployment rollout:", func() {
	It("Should change Machines in place where it can, and replace them where the template is another", func() {
		m := newCluster("md-rollout", "rolling", 2)
		before := m.machineNames()

		By("Labels, annotations and timeouts reach the Machines that are there")
		framework.UpgradeMachineDeploymentInPlaceMutableFieldsAndWait(ctx, framework.UpgradeMachineDeploymentInPlaceMutableFieldsAndWaitInput{
			ClusterProxy: proxy, Cluster: m.Cluster, MachineDeployments: m.MachineDeployments,
			WaitForMachinesToBeUpgraded: config.GetIntervals("md-rollout", "wait-machine-upgrade"),
		})
		Expect(m.machineNames()).To(ConsistOf(before), "Machines must not be replaced by changes in place")

		By("Another template replaces each Machine")
		framework.UpgradeMachineDeploymentInfrastructureRefAndWait(ctx, framework.UpgradeMachineDeploymentInfrastructureRefAndWaitInput{
			ClusterProxy: proxy, Cluster: m.Cluster, MachineDeployments: m.MachineDeployments,
			WaitForMachinesToBeUpgraded: config.GetIntervals("md-rollout", "wait-machine-upgrade"),
		})
		m.isWell()
		for _, name := range m.machineNames() {
			Expect(before).NotTo(ContainElement(name))
		}
	})
})

func (m made) machines() []clusterv1.Machine {
	list := &clusterv1.MachineList{}
	Expect(proxy.GetClient().List(ctx, list, client.InNamespace(m.namespace))).To(Succeed())
	return list.Items
}

func (m made) machineNames() []string {
	var names []string
	for _, machine := range m.machines() {
		names = append(names, machine.Name)
	}
	return names
}

// isWell asks what the shipped specs ask at their end.
func (m made) isWell() {
	framework.VerifyClusterAvailable(ctx, framework.VerifyClusterAvailableInput{Getter: proxy.GetClient(), Name: m.Cluster.Name, Namespace: m.namespace})
	framework.VerifyMachinesReady(ctx, framework.VerifyMachinesReadyInput{Lister: proxy.GetClient(), Name: m.Cluster.Name, Namespace: m.namespace})
}

// deployment reads the Cluster's only one anew.
func (m made) deployment() *clusterv1.MachineDeployment {
	deployment := &clusterv1.MachineDeployment{}
	Expect(proxy.GetClient().Get(ctx, client.ObjectKeyFromObject(m.MachineDeployments[0]), deployment)).To(Succeed())
	return deployment
}

// changeDeployment patches it.
func (m made) changeDeployment(change func(*clusterv1.MachineDeployment)) {
	deployment := m.deployment()
	patch := client.MergeFrom(deployment.DeepCopy())
	change(deployment)
	Expect(proxy.GetClient().Patch(ctx, deployment, patch)).To(Succeed())
	deployment.DeepCopyInto(m.MachineDeployments[0])
}
