package clusterapi

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	workload = "drained-workload"
	// early and guarded are Deployments: one whose Pods are drained first, and one that a
	// disruption budget guards.
	early   = "drained-first"
	guarded = "guarded"
	blocker = "team.example/block"
)

var _ = Describe("[framework] Node drain:", func() {
	It("Should drain a Mac in the order of MachineDrainRules, and wait for a disruption budget", func() {
		m := newCluster("node-drain", "", 1)
		m.changeDeployment(func(deployment *clusterv1.MachineDeployment) {
			deployment.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](0)
		})
		on := proxy.GetWorkloadCluster(ctx, m.namespace, m.Cluster.Name)
		DeferCleanup(func() {
			framework.DeleteNamespace(ctx, framework.DeleteNamespaceInput{Deleter: proxy.GetClient(), Name: workload})
		})
		By("Pods run on the Mac, and rules say which go first")
		m.rule(early, -5)
		m.rule(guarded, 10)
		framework.DeployUnevictablePod(ctx, m.pods(on, guarded))
		framework.DeployEvictablePod(ctx, framework.DeployEvictablePodInput(m.pods(on, early)))

		By("The Machine goes, and its drain waits for the Pod that goes first")
		machine := m.machines()[0]
		m.changeDeployment(func(deployment *clusterv1.MachineDeployment) { deployment.Spec.Replicas = ptr.To[int32](0) })
		m.awaitDraining(machine,
			MatchRegexp(`Pod `+workload+`/`+early+`[^:]+: deletionTimestamp set, but still not removed from the Node`),
			MatchRegexp(`(?s)After above Pods have been removed from the Node, the following Pods will be evicted:.*`+guarded))
		m.releaseEvicted(machine)

		By("The drain goes on, and waits for the disruption budget")
		m.awaitDraining(machine, ContainSubstring("cannot evict pod as it would violate the pod's disruption budget"))
		framework.DeletePodDisruptionBudget(ctx, framework.DeletePodDisruptionBudgetInput{ClientSet: on.GetClientSet(), Budget: guarded, Namespace: workload})

		By("The Machine and its Node are gone")
		Eventually(m.machines, config.GetIntervals("node-drain", "wait-machine-deleted")...).Should(BeEmpty())
		Expect(client.IgnoreNotFound(proxy.GetClient().Get(ctx, client.ObjectKey{Name: machine.Status.NodeRef.Name}, &corev1.Node{}))).To(Succeed())
		framework.VerifyClusterAvailable(ctx, framework.VerifyClusterAvailableInput{Getter: proxy.GetClient(), Name: m.Cluster.Name, Namespace: m.namespace})
	})
})

// rule drains Pods of a Deployment in an order.
func (m made) rule(deployment string, order int32) {
	Expect(proxy.GetClient().Create(ctx, &clusterv1.MachineDrainRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: deployment},
		Spec: clusterv1.MachineDrainRuleSpec{
			Drain: clusterv1.MachineDrainRuleDrainConfig{Behavior: clusterv1.MachineDrainRuleDrainBehaviorDrain, Order: &order},
			Pods:  []clusterv1.MachineDrainRulePodSelector{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"deployment": deployment}}}},
		},
	})).To(Succeed())
}

// pods are the framework's, of an image that a Mac runs.
func (m made) pods(on framework.ClusterProxy, name string) framework.DeployPodAndWaitInput {
	return framework.DeployPodAndWaitInput{
		WorkloadClusterProxy: on, MachineDeployment: m.MachineDeployments[0], DeploymentName: name, Namespace: workload,
		NodeSelector:                       map[string]string{corev1.LabelHostname: m.machines()[0].Status.NodeRef.Name},
		WaitForDeploymentAvailableInterval: config.GetIntervals("node-drain", "wait-deployment-available"),
		ModifyDeployment: func(deployment *appsv1.Deployment) {
			pod := &deployment.Spec.Template
			pod.Spec.Containers[0].Image = "ghcr.io/cirruslabs/macos-tahoe-xcode:26"
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "tuist.dev/macos", Operator: corev1.TolerationOpExists}}
			pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
			if name == early {
				pod.Finalizers = []string{blocker}
			}
		},
	}
}

// awaitDraining waits until the Machine says so of its drain.
func (m made) awaitDraining(machine clusterv1.Machine, says ...types.GomegaMatcher) {
	Eventually(func(g Gomega) {
		now := &clusterv1.Machine{}
		g.Expect(proxy.GetClient().Get(ctx, client.ObjectKeyFromObject(&machine), now)).To(Succeed())
		deleting := conditions.Get(now, clusterv1.MachineDeletingCondition)
		g.Expect(deleting).NotTo(BeNil())
		g.Expect(deleting.Reason).To(Equal(clusterv1.MachineDeletingDrainingNodeReason))
		g.Expect(deleting.Message).To(SatisfyAll(says...))
	}, config.GetIntervals("node-drain", "wait-machine-deleted")...).Should(Succeed())
}

// releaseEvicted waits until the Pod that goes first was evicted and has ended, and lets it go.
func (m made) releaseEvicted(machine clusterv1.Machine) {
	Eventually(func(g Gomega) {
		list := &corev1.PodList{}
		g.Expect(proxy.GetClient().List(ctx, list, client.InNamespace(workload), client.MatchingLabels{"deployment": early})).To(Succeed())
		leaves := func(pod corev1.Pod) bool {
			return pod.Spec.NodeName == machine.Status.NodeRef.Name && pod.DeletionTimestamp != nil
		}
		g.Expect(list.Items).To(ContainElement(Satisfy(leaves)), "no Pod is leaving the Mac")
		pod := &list.Items[slices.IndexFunc(list.Items, leaves)]
		g.Expect(pod.Status.Phase).To(BeElementOf(corev1.PodSucceeded, corev1.PodFailed))
		g.Expect(pod.Status.Conditions).To(ContainElement(SatisfyAll(
			HaveField("Type", corev1.DisruptionTarget), HaveField("Reason", "EvictionByEvictionAPI"), HaveField("Status", corev1.ConditionTrue),
		)))
		patch := client.MergeFrom(pod.DeepCopy())
		pod.Finalizers = nil
		g.Expect(proxy.GetClient().Patch(ctx, pod, patch)).To(Succeed())
	}, config.GetIntervals("node-drain", "wait-machine-deleted")...).Should(Succeed())
}
