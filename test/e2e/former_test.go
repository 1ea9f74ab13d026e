package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
)

// The first system, as it leaves a cluster. Nothing here knows of macfleet; what is
// its own are the names.
const (
	formerCluster = "tuist"
	formerFleet   = "tuist-tuist-runners-fleet"
	formerManager = "capi-provider-tuist"   // its ServiceAccount
	formerSecrets = metav1.NamespaceDefault // the namespace of its Secrets
	formerLease   = "scaleway-applesilicon.infrastructure.cluster.x-k8s.io"
	infraGroup    = ".infrastructure.cluster.x-k8s.io"
)

// formerKinds are its kinds that macfleet has, too.
func formerKinds() []string {
	return []string{"scalewayapplesiliconmachines", "scalewayapplesiliconmachinetemplates"}
}

// formerCRDs puts its CRDs in place of ours: with its fields, of Cluster API's contract
// v1beta1, and without what says that a CRD is macfleet's.
func (f *fleet) formerCRDs() {
	f.Helper()
	for _, kind := range formerKinds() {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		if err := f.client.Get(f.Context(), client.ObjectKey{Name: kind + infraGroup}, crd); err != nil {
			f.Fatal(err)
		}
		crd.SetAnnotations(nil)
		crd.SetLabels(map[string]string{"cluster.x-k8s.io/v1beta1": "v1alpha1"})
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		versions[0].(map[string]any)["schema"] = map[string]any{"openAPIV3Schema": anything()}
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			f.Fatal(err)
		}
		if err := f.client.Update(f.Context(), crd); err != nil {
			f.Fatalf("changing the CRD %s: %v", crd.GetName(), err)
		}
	}
}

func anything() map[string]any {
	return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
}

// former makes an object of a kind that Go does not know.
func former(kind, name string, more map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: more}
	object.SetGroupVersionKind(infrav1.GroupVersion.WithKind(kind))
	object.SetNamespace(world.Namespace)
	object.SetName(name)
	return object
}

// createAll creates objects, and again while the API server does not know their kind yet.
func (f *fleet) createAll(objects ...client.Object) {
	f.Helper()
	for _, object := range objects {
		f.await("the API server to take "+object.GetName(), func() (string, bool) {
			err := f.client.Create(f.Context(), object)
			return fmt.Sprint(err), err == nil
		})
	}
}

// formerClusterUp makes its Cluster, whose infrastructure is of a kind of its own, and
// waits until core takes it for provisioned.
func (f *fleet) formerClusterUp(kubeconfig *corev1.Secret) {
	f.Helper()
	f.createAll(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "tuistclusters" + infraGroup, "labels": map[string]any{"cluster.x-k8s.io/v1beta1": "v1alpha1"}},
		"spec": map[string]any{
			"group": infrav1.GroupVersion.Group, "scope": "Namespaced",
			"names": map[string]any{"kind": "TuistCluster", "listKind": "TuistClusterList", "plural": "tuistclusters", "singular": "tuistcluster"},
			"versions": []any{map[string]any{
				"name": "v1alpha1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": anything()}, "subresources": map[string]any{"status": map[string]any{}},
			}},
		},
	}})
	rule := f.coreRole.Rules[0].DeepCopy() // its own chart lets core read and patch its kind
	rule.APIGroups, rule.Resources = []string{infrav1.GroupVersion.Group}, []string{"tuistclusters", "tuistclusters/status"}
	rule.Verbs = []string{"get", "list", "watch", "patch", "update"}
	f.coreRole.Rules = append(f.coreRole.Rules, *rule)

	infra := former("TuistCluster", formerCluster, map[string]any{"spec": map[string]any{}})
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: formerCluster},
		Spec: clusterv1.ClusterSpec{
			ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443},
			InfrastructureRef:    clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "TuistCluster", Name: formerCluster},
		},
	}
	f.createAll(infra, cluster, kubeconfig)
	for object, status := range map[client.Object]string{infra: `{"status":{"ready":true}}`, cluster: `{"status":{"initialization":{"controlPlaneInitialized":true}}}`} {
		if err := f.client.Status().Patch(f.Context(), object, mergePatch(status)); err != nil {
			f.Fatal(err)
		}
	}
	f.await("core to take the first system's Cluster for provisioned", func() (string, bool) {
		cluster := &clusterv1.Cluster{}
		f.read(formerCluster, cluster)
		return cluster.Status.Phase, ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false)
	})
}

// formerKubeconfig is the Secret that its operators made by hand, with the token of
// the chart's ServiceAccount for core.
func (f *fleet) formerKubeconfig() *corev1.Secret {
	f.Helper()
	ours := &corev1.Secret{}
	f.await("a kubeconfig for core", func() (string, bool) {
		err := f.client.Get(f.Context(), client.ObjectKey{Namespace: world.Namespace, Name: "macfleet-kubeconfig"}, ours)
		return fmt.Sprint(err), err == nil
	})
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: world.Namespace, Name: formerCluster + "-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: formerCluster},
		},
		Type: ours.Type, Data: ours.Data,
	}
}

// formerObjects are a fleet's: its key, its template, and a MachineDeployment that
// makes as many Machines.
func (f *fleet) formerObjects(machines int32) {
	f.Helper()
	ours := &corev1.Secret{}
	f.read(world.Fleet+"-ssh", ours)
	key := formerSecret(formerFleet+"-ssh", map[string][]byte{"id_ed25519": ours.Data["ssh-privatekey"], "id_ed25519.pub": ours.Data["ssh-publickey"]})
	key.Annotations = map[string]string{"scaleway.tuist.dev/ssh-key-id": "0b1c"}
	template := former("ScalewayAppleSiliconMachineTemplate", formerFleet, map[string]any{
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"type": world.ServerType, "zone": world.Zone, "os": "Tahoe", "fleetName": formerFleet, "adoptPoolPrefix": world.PoolPrefix,
			"hostCPU": int64(10), "hostMemoryMB": int64(14336), "guestCapacity": int64(1), "maxPods": int64(3),
		}}},
	})
	labels := map[string]string{clusterv1.ClusterNameLabel: formerCluster, "tuist.dev/fleet": formerFleet}
	f.createAll(key, template, &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: formerFleet},
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: formerCluster, Replicas: ptr.To(machines), Selector: metav1.LabelSelector{MatchLabels: labels},
			Rollout: clusterv1.MachineDeploymentRolloutSpec{Strategy: clusterv1.MachineDeploymentRolloutStrategy{Type: clusterv1.OnDeleteMachineDeploymentStrategyType}},
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: clusterv1.ObjectMeta{Labels: labels},
				Spec: clusterv1.MachineSpec{
					ClusterName: formerCluster, Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("noop-bootstrap")},
					InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: template.GetKind(), Name: formerFleet},
				},
			},
		},
	})
}

func formerSecret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: formerSecrets, Name: name,
			Labels: map[string]string{"tuist.dev/managed-by": "capi-scaleway-applesilicon", "tuist.dev/fleet": formerFleet},
		},
		Data: data,
	}
}

// formerMachine writes what its manager writes about a Machine that is up: providerID,
// finalizer, and a status whose conditions have no reason.
func (f *fleet) formerMachine(manager client.Client, name, serverID string) {
	f.Helper()
	object := former("ScalewayAppleSiliconMachine", name, map[string]any{})
	held := fmt.Sprintf(`{"metadata":{"finalizers":["scalewayapplesilicon.cluster.x-k8s.io/finalizer"]},"spec":{"providerID":"%s"}}`, formerProviderID(serverID))
	if err := manager.Patch(f.Context(), object, mergePatch(held)); err != nil {
		f.Fatalf("writing as the first system: %v", err)
	}
	if err := manager.Status().Patch(f.Context(), object, mergePatch(formerStatus(serverID))); err != nil {
		f.Fatalf("writing as the first system: %v", err)
	}
}

func formerStatus(serverID string) string {
	at := time.Now().UTC().Format(time.RFC3339)
	conditions := []map[string]string{
		{"type": "Provisioned", "status": "True", "lastTransitionTime": at}, {"type": "Bootstrapped", "status": "True", "lastTransitionTime": at},
	}
	data, _ := json.Marshal(map[string]any{"status": map[string]any{
		"serverID": serverID, "ready": true, "phase": "Ready", "hostConfigHash": "9f86d081", "bootstrapAttempts": 0, "conditions": conditions,
	}}) // strings and numbers alone
	return string(data)
}

func formerProviderID(serverID string) string {
	return "scw-applesilicon://" + world.Zone + "/" + serverID
}

func mergePatch(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }

func (f *fleet) read(name string, into client.Object) {
	f.Helper()
	if err := f.client.Get(f.Context(), client.ObjectKey{Namespace: world.Namespace, Name: name}, into); err != nil {
		f.Fatal(err)
	}
}

// formerMachines are the names of its infra machines.
func (f *fleet) formerMachines() []string {
	f.Helper()
	var names []string
	for _, m := range f.infraMachines() {
		if m.Labels["tuist.dev/fleet"] == formerFleet {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// formerNames waits for the infra machines that core clones.
func (f *fleet) formerNames(n int) []string {
	f.Helper()
	var names []string
	f.await(fmt.Sprintf("%d infra machines of the first system", n), func() (string, bool) {
		names = f.formerMachines()
		return fmt.Sprint(names), len(names) == n
	})
	return names
}

// formerNode is the Node that its agent registers, and what lets that agent do so.
func (f *fleet) formerNode(name, serverID string) {
	f.Helper()
	identity := "tart-kubelet-" + name
	f.createAll(
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: formerSecrets, Name: identity}},
		formerSecret(identity+"-token", map[string][]byte{"token": []byte("without an end")}),
		formerSecret(name+"-bootstrap", map[string][]byte{"sudo-password": []byte("<sealed>"), "ssh-username": []byte("m1"), "host-fingerprint": []byte("SHA256:former")}),
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: identity},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tart-kubelet"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: formerSecrets, Name: identity}},
		},
	)
	f.createAll(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelOSStable: "darwin", corev1.LabelArchStable: "arm64", corev1.LabelHostname: name,
			"tuist.dev/runtime": "tart", "tuist.dev/fleet": formerFleet,
		}},
		Spec: corev1.NodeSpec{
			ProviderID: formerProviderID(serverID),
			Taints:     []corev1.Taint{{Key: "tuist.dev/macos", Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		},
	})
}

// awaitFormerNodes waits until core knows each Machine's Node.
func (f *fleet) awaitFormerNodes(names []string) {
	f.Helper()
	f.await("core to bind the first system's Nodes", func() (string, bool) {
		var seen []string
		bound := 0
		for _, m := range f.machines() {
			seen = append(seen, m.Name+"="+m.Status.Phase+"/"+m.Status.NodeRef.Name)
			if m.Status.NodeRef.Name == m.Name && slices.Contains(names, m.Name) {
				bound++
			}
		}
		return strings.Join(seen, " "), bound == len(names)
	})
}

// formerPod is a Pod that its agent runs on a Node, bound and told of as it does.
func (f *fleet) formerPod(name, node string) *corev1.Pod {
	f.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Finalizers: []string{"tart-kubelet.tuist.dev/vm-cleanup"}},
		Spec:       macPod(),
	}
	pod.Spec.NodeName, pod.Spec.RestartPolicy = node, corev1.RestartPolicyNever
	f.createAll(pod)
	base := pod.DeepCopy()
	now := metav1.Now()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "macos", Ready: true, Started: ptr.To(true), Image: formerImage, ContainerID: "tart://default-" + name,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
	if err := f.client.Status().Patch(f.Context(), pod, client.MergeFrom(base)); err != nil {
		f.Fatal(err)
	}
	return pod
}

// formerLeaseSeconds is longer than a manager takes to start on a busy machine.
const formerLeaseSeconds int32 = 600

// renewFormerLease leaves its manager's lease as it is so long after that was renewed.
func (f *fleet) renewFormerLease(ago time.Duration) {
	f.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: formerLease}}
	if err := client.IgnoreNotFound(f.client.Delete(f.Context(), lease.DeepCopy())); err != nil {
		f.Fatal(err)
	}
	at := metav1.NewMicroTime(time.Now().Add(-ago))
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To("capi-provider-tuist-0"), LeaseDurationSeconds: ptr.To(formerLeaseSeconds), RenewTime: &at}
	f.createAll(lease)
}
