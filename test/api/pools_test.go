package api

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func inPool(prefix, namespace string) map[string]client.Object {
	m, t := newMachine(), newTemplate()
	m.Spec.AdoptPoolPrefix, t.Spec.Template.Spec.AdoptPoolPrefix = prefix, prefix
	m.Namespace, t.Namespace = namespace, namespace
	return map[string]client.Object{"Machine": m, "template": t}
}

// TestPoolsAreOfNamespaces: nobody names another namespace's pool, not even who may
// write everything else: the manager would not believe it either.
func TestPoolsAreOfNamespaces(t *testing.T) {
	says := "the pool prefix " + otherPool + " is not for Machines of the namespace default, which may use " + poolPrefix + ": name one of these"
	for kind := range inPool("", "") {
		for _, who := range []string{fleetAuthor, clusterAdmin, core} {
			if who == core && kind != "Machine" {
				continue // core clones templates, and makes none
			}
			t.Run(kind+" by "+who, func(t *testing.T) {
				refused(t, clients[who].Create(t.Context(), inPool(otherPool, "default")[kind]), says)
				must(t, clients[who].Create(t.Context(), inPool(poolPrefix, "default")[kind]))
				must(t, clients[who].Create(t.Context(), inPool("", "default")[kind]))
			})
		}
		must(t, clients[fleetAuthor].Create(t.Context(), inPool(otherPool, otherTeam)[kind]))
		must(t, clients[fleetAuthor].Create(t.Context(), inPool(poolPrefix, otherTeam)[kind]))
	}
	m := newMachine()
	must(t, clients[fleetAuthor].Create(t.Context(), m))
	m.Spec.AdoptPoolPrefix = otherPool
	refused(t, clients[fleetAuthor].Update(t.Context(), m), says)
}

// stored are objects of before the policies, with a pool that is no longer for them.
var stored = map[string]client.Object{}

// storeBeforePolicies makes them.
func storeBeforePolicies(ctx context.Context) error {
	for kind, object := range inPool("old-pool-", "default") {
		if err := api.Create(ctx, object); err != nil {
			return err
		}
		stored[kind] = object
	}
	return nil
}

// TestAStoredPoolStaysWritable: only a new word is refused; an object that has it can
// be labelled, paused and given its Mac.
func TestAStoredPoolStaysWritable(t *testing.T) {
	for kind, object := range stored {
		object := object.DeepCopyObject().(client.Object)
		object.SetLabels(map[string]string{"team": "ios"})
		if err := clients[fleetAuthor].Update(t.Context(), object); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	m := &infrav1.ScalewayAppleSiliconMachine{}
	must(t, api.Get(t.Context(), client.ObjectKeyFromObject(stored["Machine"]), m))
	patch := client.MergeFrom(m.DeepCopy())
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, "cluster.x-k8s.io/paused", "true")
	m.Spec.HostRef = &infrav1.HostReference{Name: "h", ClaimToken: "t"}
	must(t, clients[manager].Patch(t.Context(), m, patch))
}
