package api

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

const (
	saysWhichNode = "only Cluster API writes them: leave them out, or as they are"
	otherCloud    = "aws:///eu-west-1/i-0123"
)

// coreSpec is that of Cluster API's own Machine.
func coreSpec(name, providerID string) clusterv1.MachineSpec {
	none := "none"
	return clusterv1.MachineSpec{
		ClusterName: "c", ProviderID: providerID, Bootstrap: clusterv1.Bootstrap{DataSecretName: &none},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "ScalewayAppleSiliconMachine", Name: name},
	}
}

// ownMachine is core's, of an infra machine of its own name.
func ownMachine(name, providerID string) *clusterv1.Machine {
	return coreMachine(name, name, providerID)
}

func coreMachine(name, infra, providerID string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: coreSpec(infra, providerID)}
}

func newName() string { return "m-" + uuid.NewString() }

// TestWhoMaySayWhichNodeAMachineIs: core drains and deletes the Node that a Machine's
// providerID names, a control plane's too.
func TestWhoMaySayWhichNodeAMachineIs(t *testing.T) {
	labels := map[string]string{"a": "b"}
	template := clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: coreSpec("i", otherCloud)}
	for name, build := range map[string]func() client.Object{
		"Machine": func() client.Object { return ownMachine(newName(), otherCloud) },
		"a Mac's": func() client.Object { return ownMachine(newName(), machineWithProviderID().Spec.ProviderID) },
		"MachineSet": func() client.Object {
			return &clusterv1.MachineSet{
				ObjectMeta: metav1.ObjectMeta{Name: newName(), Namespace: "default"},
				Spec:       clusterv1.MachineSetSpec{ClusterName: "c", Selector: metav1.LabelSelector{MatchLabels: labels}, Template: template},
			}
		},
		"MachineDeployment": func() client.Object {
			return &clusterv1.MachineDeployment{
				ObjectMeta: metav1.ObjectMeta{Name: newName(), Namespace: "default"},
				Spec:       clusterv1.MachineDeploymentSpec{ClusterName: "c", Selector: metav1.LabelSelector{MatchLabels: labels}, Template: template},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, who := range []string{fleetAuthor, namespaceAdmin} {
				err := clients[who].Create(t.Context(), build())
				refused(t, err, saysWhichNode)
				refused(t, err, saysTheVerb)
			}
			for _, who := range []string{core, clusterAdmin} { // as a tool that restores backups
				must(t, clients[who].Create(t.Context(), build()))
			}
		})
	}
	t.Run("later", func(t *testing.T) {
		for _, who := range []string{fleetAuthor, namespaceAdmin} {
			m := ownMachine(newName(), "")
			must(t, clients[who].Create(t.Context(), m))
			m.Spec.ProviderID = otherCloud
			refused(t, clients[who].Update(t.Context(), m), saysWhichNode)
		}
		m := ownMachine(newName(), "")
		must(t, api.Create(t.Context(), m))
		m.Status.NodeRef.Name = "a-node"
		refused(t, clients[namespaceAdmin].Status().Update(t.Context(), m), saysWhichNode)
		must(t, clients[core].Status().Update(t.Context(), m))
		m.Spec.ProviderID = otherCloud
		must(t, clients[core].Update(t.Context(), m))
		m.Labels = labels
		must(t, clients[fleetAuthor].Update(t.Context(), m))
	})
}

// TestCoreTouchesNoNodeThatIsNoMac: what core does to a Node it does as capi-remote.
func TestCoreTouchesNoNodeThatIsNoMac(t *testing.T) {
	for name, c := range map[string]struct {
		providerID string
		says       string
	}{
		"another cloud's": {otherCloud, "is no Mac"},
		"without any":     {"", "is no Mac"},
		"a Mac":           {machineWithProviderID().Spec.ProviderID, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-" + uuid.NewString()}, Spec: corev1.NodeSpec{ProviderID: c.providerID}}
			must(t, api.Create(t.Context(), node))
			cordon := client.MergeFrom(node.DeepCopy())
			node.Spec.Unschedulable = true
			for _, err := range []error{clients[remote].Patch(t.Context(), node, cordon), clients[remote].Delete(t.Context(), node)} {
				if c.says == "" {
					must(t, err)
				} else {
					refused(t, err, c.says)
				}
			}
		})
	}
}

// TestAMacLeavesWhatIsKeptOfItsNode: by this note the manager takes labels and taints
// away, which a node may not do itself; nor does it say whether it may be scaled down.
func TestAMacLeavesWhatIsKeptOfItsNode(t *testing.T) {
	const saysNote = "Cluster API and macfleet set them, and a Mac leaves them as they are"
	annotate := func(annotations map[string]any) client.Patch {
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
		must(t, err)
		return client.RawPatch(types.MergePatchType, data)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a-mac", Labels: map[string]string{"kubernetes.io/os": "darwin", "kubernetes.io/arch": "arm64"},
			Annotations: map[string]string{
				infrav1.KeptAnnotation: `{"labels":["a"]}`, clusterv1.ClusterNameAnnotation: "c",
				infrav1.ScaleDownDisabledAnnotation: "true", infrav1.HeldUntilAnnotation: "2026-03-02T12:00:00Z",
			},
		},
		Spec: corev1.NodeSpec{ProviderID: machineWithProviderID().Spec.ProviderID},
	}
	refused(t, clients[mac].Create(t.Context(), node.DeepCopy()), saysNote)
	must(t, api.Create(t.Context(), node))
	for key, value := range node.Annotations {
		refused(t, clients[mac].Patch(t.Context(), node.DeepCopy(), annotate(map[string]any{key: value + " "})), saysNote)
		refused(t, clients[mac].Patch(t.Context(), node.DeepCopy(), annotate(map[string]any{key: nil})), saysNote)
		refused(t, clients[mac].Status().Patch(t.Context(), node.DeepCopy(), annotate(map[string]any{key: value + " "})), saysNote)
	}
	must(t, clients[mac].Patch(t.Context(), node.DeepCopy(), annotate(map[string]any{"volumes.kubernetes.io/x": "y"})))
	must(t, api.Delete(t.Context(), node))
}

// TestACopyNamesNoOthersMac: core would end the other's with the copy, as soon as
// nobody controls it.
func TestACopyNamesNoOthersMac(t *testing.T) {
	owner := newName()
	m := newMachine()
	m.Name = owner
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: owner, UID: types.UID(uuid.NewString()), Controller: new(true)}}
	must(t, api.Create(t.Context(), m))
	copyOf := func() *clusterv1.Machine {
		copied := ownMachine(newName(), "")
		copied.Spec.InfrastructureRef.Name = owner
		return copied
	}
	// The policy reads the other's from a watch of the API server's.
	must(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, rights, true, func(ctx context.Context) (bool, error) {
		return clients[core].Create(ctx, copyOf(), client.DryRunAll) != nil, nil
	}))
	for _, who := range []string{clusterAdmin, fleetAuthor, core} {
		copied := copyOf()
		refused(t, clients[who].Create(t.Context(), copied), "which is another Machine's: a copy has no Mac")
	}
	must(t, clients[core].Create(t.Context(), ownMachine(owner, "")))
	elsewhere := ownMachine(newName(), "")
	elsewhere.Namespace, elsewhere.Spec.InfrastructureRef.Name = otherTeam, owner
	must(t, clients[core].Create(t.Context(), elsewhere))
}
