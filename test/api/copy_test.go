package api

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// TestACopyIsDeletedPastThePolicies does what `macfleet machine delete-copy` does, in the roles
// that are shipped for it: a copy of a time before the policies goes, with Cluster API's Machine.
func TestACopyIsDeletedPastThePolicies(t *testing.T) {
	for _, who := range []string{hostOperator, clusterAdmin} {
		t.Run(who, func(t *testing.T) {
			h := newHost()
			must(t, api.Create(t.Context(), h))
			id := "scw-applesilicon://fr-par-1/" + h.Spec.ServerID
			owner := ownMachine(newName(), id)
			owner.Finalizers = []string{clusterv1.MachineFinalizer}
			must(t, api.Create(t.Context(), owner))
			m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Name: owner.Name, Namespace: owner.Namespace}}
			m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))}
			m.Spec.ProviderID = id
			must(t, api.Create(t.Context(), m))
			h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "default", Name: "the-original", Token: "1"}
			must(t, api.Update(t.Context(), h))

			look := func(ctx context.Context) (act.Plan, error) {
				s, err := snapshot.Load(ctx, clients[who], "default", snapshot.Machines, snapshot.Hosts, snapshot.CoreMachines, snapshot.Clusters)
				if err != nil {
					return act.Plan{}, err
				}
				found, err := explain.FindExactly(s.Machines, "machine", m.Name)
				if err != nil {
					return act.Plan{}, err
				}
				return act.DeleteCopy{}.Plan(act.OfMachine(s, found))
			}
			plan, err := look(t.Context())
			must(t, err)
			must(t, act.Run(t.Context(), clients[who], plan, false, look))
			for _, object := range []client.Object{owner, m} {
				if err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
					t.Errorf("%T is there still: %v", object, err)
				}
			}
		})
	}
}
