package api

import (
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// TestContract_AMoveOrRestoreWithoutStatusKeepsTheMac does what `clusterctl move` and a tool for backups do
// with a Machine: it is made from its manifest, without status and with another UID,
// gets its owner, and is released where it came from. Who does so holds claim.
func TestContract_AMoveOrRestoreWithoutStatusKeepsTheMac(t *testing.T) {
	mover := clients[clusterAdmin]
	source := provisionedMachine()
	source.Finalizers = []string{infrav1.MachineFinalizer}
	must(t, api.Create(t.Context(), source))

	for _, owned := range []bool{false, true} { // clusterctl writes the new owners at once, others later
		copied := source.DeepCopy()
		copied.ObjectMeta = metav1.ObjectMeta{Name: "moved-" + uuid.NewString(), Namespace: "default", Labels: source.Labels, Finalizers: source.Finalizers}
		owner := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m", UID: types.UID(uuid.NewString())}
		if owned {
			copied.OwnerReferences = []metav1.OwnerReference{owner}
		}
		must(t, mover.Create(t.Context(), copied))
		if copied.Spec.HostRef == nil || *copied.Spec.HostRef != *source.Spec.HostRef || copied.Spec.ProviderID != source.Spec.ProviderID {
			t.Errorf("spec = %+v, want the source's", copied.Spec)
		}
		patch := client.MergeFrom(copied.DeepCopy())
		copied.OwnerReferences, copied.Labels = []metav1.OwnerReference{owner}, map[string]string{"cluster.x-k8s.io/cluster-name": "c"}
		must(t, clients[core].Patch(t.Context(), copied, patch))
	}

	metav1.SetMetaDataAnnotation(&source.ObjectMeta, clusterctlv1.DeleteForMoveAnnotation, "")
	must(t, mover.Update(t.Context(), source))
	must(t, mover.Delete(t.Context(), source))
	must(t, client.IgnoreNotFound(mover.Patch(t.Context(), source, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(source), source); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the source is still there: %v", err)
	}
}

// TestANamespaceWithMacsCanBeEmptied: its deletion takes Machines and finalizers with
// it, by the hand of a controller that holds no claim.
func TestANamespaceWithMacsCanBeEmptied(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n-" + uuid.NewString()}}
	must(t, api.Create(t.Context(), namespace))
	m := provisionedMachine()
	m.Namespace, m.Finalizers = namespace.Name, []string{infrav1.MachineFinalizer}
	must(t, api.Create(t.Context(), m))
	must(t, clients[collector].DeleteAllOf(t.Context(), m, client.InNamespace(namespace.Name)))
	must(t, clients[collector].Patch(t.Context(), m, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}
