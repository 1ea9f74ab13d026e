package clusterapi

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
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
		By("Taints reach their Nodes, beside those of the profile, and go again")
		always := clusterv1.MachineTaint{Key: "team.example/always", Value: "yes", Effect: corev1.TaintEffectPreferNoSchedule, Propagation: clusterv1.MachineTaintPropagationAlways}
		was := m.nodeTaints()
		m.taint(always)
		m.awaitTaints(was, corev1.Taint{Key: always.Key, Value: always.Value, Effect: always.Effect})
		m.taint()
		m.awaitTaints(was)
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

func (m made) taint(taints ...clusterv1.MachineTaint) {
	m.changeDeployment(func(deployment *clusterv1.MachineDeployment) { deployment.Spec.Template.Spec.Taints = taints })
}

// nodeTaints are those that the Nodes of all Machines have alike.
func (m made) nodeTaints() []corev1.Taint {
	var taints []corev1.Taint
	for i, machine := range m.machines() {
		node := &corev1.Node{}
		Expect(proxy.GetClient().Get(ctx, client.ObjectKey{Name: machine.Status.NodeRef.Name}, node)).To(Succeed())
		if i > 0 {
			Expect(node.Spec.Taints).To(ConsistOf(taints))
		}
		taints = node.Spec.Taints
	}
	return taints
}

// awaitTaints waits until all Nodes have them, and sees them stay.
func (m made) awaitTaints(was []corev1.Taint, more ...corev1.Taint) {
	have := func(g Gomega) {
		for _, machine := range m.machines() {
			node := &corev1.Node{}
			g.Expect(proxy.GetClient().Get(ctx, client.ObjectKey{Name: machine.Status.NodeRef.Name}, node)).To(Succeed())
			g.Expect(node.Spec.Taints).To(ConsistOf(append(more, was...)))
		}
	}
	Eventually(have, within, "500ms").Should(Succeed())
	Consistently(have, "10s", "500ms").Should(Succeed())
}
