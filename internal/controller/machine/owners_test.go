package machine

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// The API server deletes what any missing owner owned, and core follows down to the
// Machine: each link of the chain counts.
func TestAMissingOwnerIsFoundHoweverFarUp(t *testing.T) {
	owned := func(kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: "x", UID: types.UID(kind)}}
	}
	meta := func(kind, owner string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: namespace, Name: "x", UID: types.UID(kind)}
		if owner != "" {
			m.OwnerReferences = owned(owner)
		}
		return m
	}
	chain := func() map[string]client.Object {
		return map[string]client.Object{
			"Machine":           &clusterv1.Machine{ObjectMeta: meta("Machine", "MachineSet")},
			"MachineSet":        &clusterv1.MachineSet{ObjectMeta: meta("MachineSet", "MachineDeployment")},
			"MachineDeployment": &clusterv1.MachineDeployment{ObjectMeta: meta("MachineDeployment", "Cluster")},
			"Cluster":           &clusterv1.Cluster{ObjectMeta: meta("Cluster", "")},
		}
	}
	look := func(t *testing.T, objects map[string]client.Object) string {
		t.Helper()
		var list []client.Object
		for _, o := range objects {
			list = append(list, o)
		}
		w := newWorld(t, list...)
		m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x", OwnerReferences: owned("Machine")}}
		missing, err := w.r.machines.missingOwner(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return missing
	}
	if got := look(t, chain()); got != "" {
		t.Errorf("missing is %q, and all are there", got)
	}
	for kind := range chain() {
		t.Run(kind, func(t *testing.T) {
			objects := chain()
			delete(objects, kind)
			if got := look(t, objects); !strings.HasPrefix(got, kind+" x of UID "+kind) {
				t.Errorf("without it: %q", got)
			}
			objects = chain()
			objects[kind].SetUID("again")
			if got := look(t, objects); !strings.HasPrefix(got, kind+" x of UID "+kind) {
				t.Errorf("created again: %q", got)
			}
		})
	}
}
