package clusterapi

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("[framework] Move:", func() {
	It("Should move a Cluster to another management cluster and back, with its Machines", func() {
		other := proxyOf("beside", *beside)
		m := newCluster("move", "", 2)
		before := identities(proxy, m.namespace)
		Expect(other.GetClient().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.namespace}})).To(Succeed())
		admit(other, m.namespace)

		By("The Cluster moves")
		m.move(proxy, other)
		m.arrives(other)
		Expect(identities(other, m.namespace)).To(Equal(before), "Machines must not be replaced by a move")

		By("The Cluster moves back")
		framework.WaitForClusterMachineNodeRefs(ctx, framework.WaitForClusterMachineNodeRefsInput{GetLister: other.GetClient(), Cluster: m.Cluster}, within, "1s")
		m.move(other, proxy)
		m.arrives(proxy)
		Expect(identities(proxy, m.namespace)).To(Equal(before), "Machines must not be replaced by a move")
		m.isWell()
	})
})

// identities are the Macs by their Machines.
func identities(on framework.ClusterProxy, namespace string) map[string]string {
	list := &clusterv1.MachineList{}
	Expect(on.GetClient().List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	found := map[string]string{}
	for _, machine := range list.Items {
		found[machine.Name] = machine.Spec.ProviderID
	}
	return found
}

func (m made) move(from, to framework.ClusterProxy) {
	clusterctl.Move(ctx, clusterctl.MoveInput{
		LogFolder: folder("move"), ClusterctlConfigPath: *repository,
		FromKubeconfigPath: from.GetKubeconfigPath(), ToKubeconfigPath: to.GetKubeconfigPath(), Namespace: m.namespace,
	})
}

// arrives: the Cluster is provisioned there, clusterctl owns none of its fields, and all
// objects have the owners that they had.
func (m made) arrives(on framework.ClusterProxy) {
	cluster := framework.DiscoveryAndWaitForCluster(ctx, framework.DiscoveryAndWaitForClusterInput{
		Getter: on.GetClient(), Namespace: m.namespace, Name: m.Cluster.Name,
	}, config.GetIntervals("move", "wait-cluster")...)
	for _, entry := range cluster.ManagedFields {
		Expect(entry.Manager).NotTo(Equal("clusterctl"))
	}
	framework.AssertOwnerReferences(m.namespace, on.GetKubeconfigPath(), clusterctlcluster.FilterClusterObjectsWithNameFilter(m.Cluster.Name),
		framework.CoreOwnerReferenceAssertion, owners(false))
}
