package clusterapi

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
)

const (
	rebased    = "rebased"
	ofTheClass = "team.example/class"
)

var _ = Describe("[framework] ClusterClass changes:", func() {
	It("Should bring changes of the ClusterClass to the Cluster, also from another namespace, and replace no Machine", func() {
		m := newCluster("clusterclass", "topology", 2)
		before := m.machineNames()

		By("The Cluster takes a copy of its class with a label for workers")
		class := m.ClusterClass
		m.rebase(m.copyOf(class, m.namespace, rebased))
		m.awaitWorkersOf(rebased)

		By("The Cluster takes such a copy from another namespace, whose control plane differs")
		elsewhere := framework.CreateNamespace(ctx, framework.CreateNamespaceInput{Creator: proxy.GetClient(), Name: m.namespace + "-class"})
		DeferCleanup(func() {
			framework.DeleteNamespace(ctx, framework.DeleteNamespaceInput{Deleter: proxy.GetClient(), Name: elsewhere.Name})
		})
		m.rebase(m.copyOf(class, elsewhere.Name, "elsewhere"))
		m.awaitWorkersOf("elsewhere")
		Eventually(func(g Gomega) {
			plane := &controlplanev1.ExternalControlPlane{}
			g.Expect(proxy.GetClient().Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: m.Cluster.Spec.ControlPlaneRef.Name}, plane)).To(Succeed())
			g.Expect(plane.Spec.Kubeconfig).To(Equal(controlplanev1.KubeconfigMinted))
		}, config.GetIntervals("clusterclass", "wait-control-plane")...).Should(Succeed())

		framework.WaitForMachinesReady(ctx, framework.WaitForMachinesReadyInput{
			Lister: proxy.GetClient(), Name: m.Cluster.Name, Namespace: m.namespace, Intervals: config.GetIntervals("clusterclass", "wait-machine-upgrade"),
		})
		m.isWell()
		Expect(m.machineNames()).To(ConsistOf(before), "Machines must not be replaced by another class")

		By("A MachineDeployment that leaves the topology is deleted")
		m.changeCluster(func(cluster *clusterv1.Cluster) { cluster.Spec.Topology.Workers.MachineDeployments = nil })
		Eventually(func(g Gomega) {
			list := &clusterv1.MachineDeploymentList{}
			g.Expect(proxy.GetClient().List(ctx, list, client.InNamespace(m.namespace))).To(Succeed())
			g.Expect(list.Items).To(BeEmpty())
		}, config.GetIntervals("clusterclass", "wait-worker-nodes")...).Should(Succeed())
	})
})

// copyOf is a class with copies of its templates, which labels workers with its name, and
// whose control planes say where their kubeconfig is from.
func (m made) copyOf(class *clusterv1.ClusterClass, namespace, name string) *clusterv1.ClusterClass {
	made := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	class.Spec.DeepCopyInto(&made.Spec)
	workers := &made.Spec.Workers.MachineDeployments[0]
	workers.Metadata.Labels = map[string]string{ofTheClass: name}
	for _, ref := range []*clusterv1.ClusterClassTemplateReference{
		&workers.Infrastructure.TemplateRef, &workers.Bootstrap.TemplateRef, &made.Spec.ControlPlane.TemplateRef, &made.Spec.Infrastructure.TemplateRef,
	} {
		template := &unstructured.Unstructured{}
		template.SetAPIVersion(ref.APIVersion)
		template.SetKind(ref.Kind)
		Expect(proxy.GetClient().Get(ctx, client.ObjectKey{Namespace: class.Namespace, Name: ref.Name}, template)).To(Succeed())
		clone := &unstructured.Unstructured{Object: map[string]any{"spec": template.Object["spec"]}}
		clone.SetGroupVersionKind(template.GroupVersionKind())
		clone.SetNamespace(namespace)
		clone.SetName(name)
		if ref.Kind == "ExternalControlPlaneTemplate" {
			Expect(unstructured.SetNestedField(clone.Object, string(controlplanev1.KubeconfigMinted), "spec", "template", "spec", "kubeconfig")).To(Succeed())
		}
		Expect(proxy.GetClient().Create(ctx, clone)).To(Succeed())
		ref.Name = name
	}
	Expect(proxy.GetClient().Create(ctx, made)).To(Succeed())
	return made
}

// rebase has the Cluster use another class.
func (m made) rebase(class *clusterv1.ClusterClass) {
	m.changeCluster(func(cluster *clusterv1.Cluster) {
		cluster.Spec.Topology.ClassRef.Name, cluster.Spec.Topology.ClassRef.Namespace = class.Name, class.Namespace
	})
}

// changeCluster patches it, as soon as core's webhook knows what it names.
func (m made) changeCluster(change func(*clusterv1.Cluster)) {
	Eventually(func(g Gomega) {
		cluster := &clusterv1.Cluster{}
		g.Expect(proxy.GetClient().Get(ctx, client.ObjectKeyFromObject(m.Cluster), cluster)).To(Succeed())
		patch := client.MergeFrom(cluster.DeepCopy())
		change(cluster)
		g.Expect(proxy.GetClient().Patch(ctx, cluster, patch)).To(Succeed())
	}, "1m", "1s").Should(Succeed())
}

// awaitWorkersOf waits until all Machines bear the label of a class.
func (m made) awaitWorkersOf(class string) {
	Eventually(func(g Gomega) {
		for _, machine := range m.machines() {
			g.Expect(machine.Labels).To(HaveKeyWithValue(ofTheClass, class))
		}
	}, config.GetIntervals("clusterclass", "wait-worker-nodes")...).Should(Succeed())
}
