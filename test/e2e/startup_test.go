package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// noManagerStartsWhereItMustNot has the manager start beside the first system's, and
// with the CRDs of an older release and of another system, each with its own rights.
func (f *fleet) noManagerStartsWhereItMustNot() {
	f.Helper()
	if err := f.world.KillManager(0); err != nil {
		f.Fatal(err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "scaleway-applesilicon.infrastructure.cluster.x-k8s.io", Namespace: metav1.NamespaceDefault},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("tuist-0_1"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NowMicro())},
	}
	if err := f.client.Create(f.Context(), lease); err != nil {
		f.Fatal(err)
	}
	f.startIsRefused(`the first system's manager "tuist-0_1" runs beside this one: it holds the lease default/scaleway-applesilicon`)
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-2 * time.Hour))) // it was stopped
	if err := f.client.Update(f.Context(), lease); err != nil {
		f.Fatal(err)
	}

	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdKind)
	if err := f.client.Get(f.Context(), client.ObjectKey{Name: "scalewayapplesiliconmachines.infrastructure.cluster.x-k8s.io"}, crd); err != nil {
		f.Fatal(err)
	}
	own := crd.DeepCopy()
	annotate := func(change func(map[string]string)) {
		f.Helper()
		base := crd.DeepCopy()
		change(crd.Annotations)
		if err := f.client.Patch(f.Context(), crd, client.MergeFrom(base)); err != nil {
			f.Fatal(err)
		}
	}
	annotate(func(a map[string]string) { a["macfleet.dev/crd-version"], a["macfleet.dev/crd-digest"] = "v0.0.9", "0" })
	f.startIsRefused("the CRD scalewayapplesiliconmachines.infrastructure.cluster.x-k8s.io is of v0.0.9 and this manager of v0.1.0: the API server would drop what it writes; type: helm show crds")
	annotate(func(a map[string]string) { delete(a, "macfleet.dev/crd-version") })
	f.startIsRefused("scalewayapplesiliconmachines.infrastructure.cluster.x-k8s.io is not macfleet's")

	// After a roll-back the CRDs are newer, and right.
	annotate(func(a map[string]string) { a["macfleet.dev/crd-version"] = "v99.0.0" })
	if err := f.world.StartManager(f.Context(), 0); err != nil {
		f.Error(err)
	}
	annotate(func(a map[string]string) {
		for key, value := range own.Annotations {
			a[key] = value
		}
	})
}

// startIsRefused: the manager ends at once, with the exit code of what starting again
// does not mend, and these words last.
func (f *fleet) startIsRefused(says string) {
	f.Helper()
	err := f.world.StartManager(f.Context(), 0)
	if err == nil || !strings.Contains(err.Error(), "exit status 2") {
		f.Fatalf("the manager started: %v; it should have ended with 2", err)
	}
	log, err := os.ReadFile(filepath.Join(f.dir, "logs", "manager-1.log"))
	if err != nil {
		f.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, says) {
		f.Errorf("its last line is %q; it should say %q", last, says)
	}
}
